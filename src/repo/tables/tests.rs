//! The tables of a small project, and statements about them.
