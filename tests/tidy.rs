//! House rules that lints cannot say.
