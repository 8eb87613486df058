//! One statement in, rows out: nothing is written, and neither time nor rows run away.
//!
//! # Place
//! Part of the tables.
//! # Invariants
//! - An authorizer refuses everything but reading, whatever the statement says; SQLite is also told that
//!   the connection only queries.
//! - A progress handler stops a statement at its deadline.

use super::error::TableError;
use super::fill::Database;
use super::schema::{TABLES, summary};
use rusqlite::fallible_iterator::FallibleIterator;
use rusqlite::hooks::{AuthAction, AuthContext, Authorization};
use rusqlite::types::ValueRef;
use rusqlite::{Batch, Connection, ErrorCode};
use std::time::{Duration, Instant};

/// Virtual machine steps of SQLite between two looks at the clock.
const STEPS_PER_LOOK: i32 = 5_000;

/// How far a query may go.
#[derive(Clone, Copy, Debug)]
pub struct QueryLimits {
    pub time: Duration,
    pub rows_max: usize,
}

/// One value of a row.
#[derive(Clone, Debug, PartialEq)]
pub enum Cell {
    Null,
    Integer(i64),
    Real(f64),
    Text(String),
}

impl std::fmt::Display for Cell {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Null => Ok(()),
            Self::Integer(n) => write!(f, "{n}"),
            Self::Real(x) => write!(f, "{x}"),
            Self::Text(text) => f.write_str(text),
        }
    }
}

/// The answer to a statement.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rows {
    pub columns: Vec<String>,
    pub rows: Vec<Vec<Cell>>,
    /// There are more rows than were asked for.
    pub is_cut: bool,
}

impl Database {
    /// Ask one statement.
    ///
    /// # Errors
    /// Statements that are not SQL, name what does not exist, write, or take too long.
    pub fn query(&mut self, sql: &str, limits: QueryLimits) -> Result<Rows, TableError> {
        let deadline = Instant::now() + limits.time;
        let connection = self.connection();
        let late = move || Instant::now() >= deadline;
        connection.progress_handler(STEPS_PER_LOOK, Some(late)).map_err(failed)?;
        connection.authorizer(Some(allow)).map_err(failed)?;
        let result = ask(connection, sql, limits);
        connection.authorizer(None::<fn(AuthContext<'_>) -> Authorization>).map_err(failed)?;
        connection.progress_handler(0, None::<fn() -> bool>).map_err(failed)?;
        result
    }
}

fn allow(context: AuthContext<'_>) -> Authorization {
    match context.action {
        AuthAction::Select | AuthAction::Read { .. } | AuthAction::Recursive => {
            Authorization::Allow
        }
        AuthAction::Function { function_name } if function_name != "load_extension" => {
            Authorization::Allow
        }
        _ => Authorization::Deny,
    }
}

fn ask(connection: &Connection, sql: &str, limits: QueryLimits) -> Result<Rows, TableError> {
    let error = |e: rusqlite::Error| explained(&e, limits);
    let refused = |problem: &str| TableError::NotReading { problem: problem.to_owned() };
    let mut batch = Batch::new(connection, sql);
    let mut statement = batch.next().map_err(error)?.ok_or_else(|| refused("it is empty"))?;
    if !statement.readonly() || statement.column_count() == 0 {
        return Err(refused("it gives no rows"));
    }
    if !matches!(batch.next(), Ok(None)) {
        return Err(refused("there is more than one"));
    }
    let columns: Vec<String> = statement.column_names().map(str::to_owned).collect();
    let mut out = Rows { columns, ..Rows::default() };
    let n_columns = out.columns.len();
    let mut rows = statement.query([]).map_err(error)?;
    while let Some(row) = rows.next().map_err(error)? {
        if out.rows.len() >= limits.rows_max {
            out.is_cut = true;
            break;
        }
        let cell = |i| row.get_ref(i).map(cell_of).map_err(error);
        out.rows.push((0..n_columns).map(cell).collect::<Result<_, _>>()?);
    }
    Ok(out)
}

fn cell_of(value: ValueRef<'_>) -> Cell {
    match value {
        ValueRef::Null => Cell::Null,
        ValueRef::Integer(n) => Cell::Integer(n),
        ValueRef::Real(x) => Cell::Real(x),
        ValueRef::Text(text) => Cell::Text(String::from_utf8_lossy(text).into_owned()),
        ValueRef::Blob(bytes) => Cell::Text(format!("{} bytes", bytes.len())),
    }
}

fn failed(error: rusqlite::Error) -> TableError {
    TableError::Failed { problem: error.to_string() }
}

/// An error with what would help: the tables, or the columns of those that are named.
fn explained(error: &rusqlite::Error, limits: QueryLimits) -> TableError {
    let problem = match error {
        rusqlite::Error::SqlInputError { msg, .. } => msg.clone(),
        rusqlite::Error::SqliteFailure(_, Some(message)) => message.clone(),
        other => other.to_string(),
    };
    match error.sqlite_error_code() {
        Some(ErrorCode::OperationInterrupted) => {
            return TableError::TooLong { ms: limits.time.as_millis() as u64 };
        }
        Some(ErrorCode::AuthorizationForStatementDenied | ErrorCode::ReadOnly) => {
            return TableError::NotReading { problem };
        }
        Some(ErrorCode::Unknown) | None => {}
        Some(_) => return TableError::Failed { problem },
    }
    let names = |t: &super::schema::Table| t.name;
    let hint = if problem.contains("no such column") {
        format!("the tables are {}", summary())
    } else if problem.contains("no such table") {
        let tables: Vec<&str> = TABLES.iter().map(names).collect();
        format!("the tables are {}", tables.join(", "))
    } else {
        "expected one SELECT statement of SQLite".to_owned()
    };
    TableError::BadStatement { problem, hint }
}
