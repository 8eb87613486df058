//! The one integration binary: what a user sees, through the library and the program.

mod adapter;
mod complete;
mod device;
mod fuzz;
mod generate;
mod grammar;
mod json_schema;
mod paper;
mod program;
mod repository;
