//! Cases of the checker.
