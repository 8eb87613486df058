//! Whole runs on small projects.
