//! The tables of a small project, and statements about them.

use super::{Cell, Database, QueryLimits, References, Rows, TABLES, TableError, schema_markdown};
use crate::repo::{Project, ProjectConfig};
use std::collections::BTreeSet;
use std::time::Duration;

const FILES: [(&str, &str); 3] = [
    (
        "shop/__init__.py",
        "'''A shop.'''\nfrom .stock import Shelf as Rack, LIMIT\nfrom os import *\n",
    ),
    (
        "shop/stock.py",
        "import json\nLIMIT: int = 3\n\n\nclass Base:\n    pass\n\n\nclass Shelf(Base, metaclass=type):\n    \
         '''Holds\n    things.'''\n    size = 1\n\n    def __init__(self, n=LIMIT):\n        self.n = n\n\n    \
         @property\n    def room(self) -> int:\n        return self.n\n\n    class Slot:\n        def put(self, \
         x, /, *y, k: str = 'a', **z):\n            return json.dumps(x)\n\n\nasync def fill(shelf: \
         Shelf):\n    shelf.n = LIMIT\n    return shelf.room\n",
    ),
    ("broken.py", "def f(:\n    pass\n"),
];

fn database() -> Database {
    let dir = tempfile::tempdir().unwrap();
    for (name, text) in FILES {
        let path = dir.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    let (project, _) = Project::open(ProjectConfig::new(dir.path())).unwrap();
    let snapshot = project.snapshot();
    let mut n_done = 0;
    let mut each = |done, all| {
        assert_eq!((done, all), (n_done + 1, 3));
        n_done = done;
    };
    Database::fill(&snapshot, project.root(), None, References::Resolved, &mut each).unwrap()
}

const LIMITS: QueryLimits = QueryLimits { time: Duration::from_secs(20), rows_max: 1000 };

fn text(rows: &Rows) -> Vec<String> {
    let line = |row: &Vec<Cell>| row.iter().map(Cell::to_string).collect::<Vec<_>>().join("|");
    rows.rows.iter().map(line).collect()
}

/// The rows of a statement, cells separated by bars.
#[track_caller]
fn check(sql: &str, expected: &[&str]) {
    let rows = database().query(sql, LIMITS).unwrap();
    assert_eq!(text(&rows), expected, "{sql}");
}

#[test]
fn the_six_tables_of_cocogen_hold_what_the_paper_says() {
    check(
        "SELECT m, parent, is_package FROM M ORDER BY m",
        &["Module broken||0", "Module shop||1", "Module shop.stock|Module shop|0"],
    );
    check(
        "SELECT m, c, cname, start_line, end_line FROM M_C ORDER BY start_line",
        &[
            "Module shop.stock|Class Base|Base|5|6",
            "Module shop.stock|Class Shelf|Shelf|9|23",
            "Module shop.stock|Class Shelf.Slot|Slot|21|23",
        ],
    );
    check(
        "SELECT c, cf, cfname, head, start_line FROM M_C_CF ORDER BY start_line",
        &[
            "Class Shelf|Function __init__|__init__|def __init__(self, n=LIMIT)|14",
            "Class Shelf|Function room|room|def room(self) -> int|17",
            "Class Shelf.Slot|Function put|put|def put(self, x, /, *y, k: str = 'a', **z)|22",
        ],
    );
    check(
        "SELECT c, cvname, content FROM M_C_V ORDER BY cvname",
        &["Class Shelf|n|self.n = n", "Class Shelf|size|size = 1"],
    );
    check(
        "SELECT gf, gfname, head FROM M_GF WHERE m = 'Module shop.stock'",
        &["Function fill|fill|async def fill(shelf: Shelf)"],
    );
    check(
        "SELECT m, gvname, content, file FROM M_GV",
        &["Module shop.stock|LIMIT|LIMIT: int = 3|shop/stock.py"],
    );
}

#[test]
fn definitions_have_parents_spans_docstrings_and_types() {
    check(
        "SELECT d.kind, d.qualified_name, p.name, d.type FROM definitions d JOIN definitions p \
         ON p.id = d.parent_id WHERE d.module = 'shop.stock' ORDER BY d.line, d.col",
        &[
            "variable|LIMIT|stock|int",
            "class|Base|stock|",
            "class|Shelf|stock|",
            "variable|Shelf.size|Shelf|",
            "method|Shelf.__init__|Shelf|",
            "attribute|Shelf.n|Shelf|",
            "property|Shelf.room|Shelf|int",
            "class|Shelf.Slot|Shelf|",
            "method|Shelf.Slot.put|Slot|",
            "function|fill|stock|",
        ],
    );
    check(
        "SELECT docstring, decorators FROM definitions WHERE name IN ('Shelf', 'room')",
        &["Holds\nthings.|[]", "|[\"property\"]"],
    );
    check(
        "SELECT docstring FROM definitions WHERE kind = 'module' AND module = 'shop'",
        &["A shop."],
    );
    check("SELECT is_async FROM definitions WHERE name = 'fill'", &["1"]);
}

#[test]
fn parameters_bases_imports_and_errors_are_listed() {
    check(
        "SELECT name, kind, annotation, default_value FROM parameters JOIN definitions d \
         ON d.id = definition_id WHERE d.name = 'put' ORDER BY position"
            .replace("SELECT name", "SELECT parameters.name")
            .replace(", kind", ", parameters.kind")
            .as_str(),
        &[
            "self|positional||",
            "x|positional||",
            "y|varargs||",
            "k|keyword|str|'a'",
            "z|varkeywords||",
        ],
    );
    check(
        "SELECT keyword, expression, resolved, base_id > 0 FROM bases ORDER BY position",
        &["|Base|shop.stock:Base|1", "metaclass|type|builtins:type|"],
    );
    check(
        "SELECT module, name, alias, level, origin FROM imports ORDER BY module, name",
        &[
            "json||json|0|stdlib",
            "os|*||0|stdlib",
            "shop.stock|LIMIT|LIMIT|1|project",
            "shop.stock|Shelf|Rack|1|project",
        ],
    );
    check("SELECT DISTINCT path FROM errors JOIN files ON files.id = file_id", &["broken.py"]);
}

#[test]
fn references_lead_to_definitions_through_imports_and_attributes() {
    check(
        "SELECT refs.line, refs.name, refs.kind, target, d.qualified_name FROM refs \
         JOIN definitions d ON d.id = in_id WHERE target LIKE 'shop%' ORDER BY refs.line, refs.col",
        &[
            "9|Base|name|shop.stock:Base|Shelf",
            "14|LIMIT|name|shop.stock:LIMIT|Shelf.__init__",
            "15|self|name|shop.stock:Shelf.__init__.self|Shelf.__init__",
            "15|n|name|shop.stock:Shelf.__init__.n|Shelf.__init__",
            "19|self|name|shop.stock:Shelf.room.self|Shelf.room",
            "19|n|attribute|shop.stock:Shelf.n|Shelf.room",
            "23|x|name|shop.stock:Shelf.Slot.put.x|Shelf.Slot.put",
            "26|Shelf|name|shop.stock:Shelf|fill",
            "27|shelf|name|shop.stock:fill.shelf|fill",
            "27|LIMIT|name|shop.stock:LIMIT|fill",
            "28|shelf|name|shop.stock:fill.shelf|fill",
            "28|room|attribute|shop.stock:Shelf.room|fill",
        ],
    );
    check("SELECT kind, target FROM refs WHERE name = 'dumps'", &["call|json:dumps"]);
}

#[test]
fn nothing_but_reading_is_allowed() {
    let writes = [
        "DELETE FROM files",
        "UPDATE files SET path = ''",
        "INSERT INTO files VALUES (9, '', '', 0, 0, 0, 0, 0)",
        "DROP TABLE files",
        "CREATE TABLE t (x)",
        "ATTACH 'x.db' AS x",
        "PRAGMA query_only = 0",
        "PRAGMA table_info(files)",
        "VACUUM INTO 'x.db'",
        "SELECT load_extension('x')",
        "SELECT 1; SELECT 2",
        "BEGIN",
    ];
    let mut database = database();
    for sql in writes {
        let error = database.query(sql, LIMITS).expect_err(sql);
        let expected = matches!(
            error,
            TableError::NotReading { .. }
                | TableError::BadStatement { .. }
                | TableError::Failed { .. }
        );
        assert!(expected, "{sql}: {error:?}");
    }
    let rows = database.query("SELECT count(*) FROM files", LIMITS).unwrap();
    assert_eq!(text(&rows), ["3"]);
}

#[test]
fn mistakes_name_the_tables_and_columns_that_exist() {
    let mut database = database();
    let mut error = |sql: &str| database.query(sql, LIMITS).unwrap_err().to_string();
    let table = error("SELECT * FROM classes");
    assert!(table.contains("no such table: classes") && table.contains("definitions"), "{table}");
    let column = error("SELECT title FROM files");
    assert!(
        column.contains("no such column: title") && column.contains("files(id, path"),
        "{column}"
    );
    assert!(error("SELEC 1").contains("syntax error"));
    assert!(error("").contains("no rows") || error("").contains("SELECT"));
}

#[test]
fn time_and_rows_are_limited() {
    let mut database = database();
    let endless =
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT sum(i) FROM n";
    let short = QueryLimits { time: Duration::from_millis(100), rows_max: 10 };
    assert!(matches!(database.query(endless, short), Err(TableError::TooLong { ms: 100 })));
    let many = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i FROM n";
    let rows = database.query(many, short).unwrap();
    assert!(rows.is_cut && rows.rows.len() == 10);
    // The limit of one statement is not that of the next.
    assert_eq!(database.query("SELECT 1", LIMITS).unwrap().rows, [[Cell::Integer(1)]]);
}

#[test]
fn a_database_file_is_made_again_and_never_takes_another_ones_place() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("a.py"), "x = 1\n").unwrap();
    let (project, _) = Project::open(ProjectConfig::new(dir.path())).unwrap();
    let path = dir.path().join("tables.db");
    let fill = |path: &std::path::Path| {
        let snapshot = project.snapshot();
        Database::fill(&snapshot, project.root(), Some(path), References::LeftOut, &mut |_, _| {})
    };
    for _ in 0..2 {
        let mut database = fill(&path).unwrap();
        let rows = database.query("SELECT gvname FROM M_GV", LIMITS).unwrap();
        assert_eq!(text(&rows), ["x"]);
    }
    let other = dir.path().join("other.db");
    let connection = rusqlite::Connection::open(&other).unwrap();
    connection.execute_batch("CREATE TABLE mine (x)").unwrap();
    drop(connection);
    let error = fill(&other).map(|_| ()).unwrap_err().to_string();
    assert!(error.contains("other tables"), "{error}");
    let error = fill(&dir.path().join("a.py")).map(|_| ()).unwrap_err().to_string();
    assert!(error.contains("a.py"), "{error}");
}

#[test]
fn every_table_and_column_is_documented_once() {
    let names: BTreeSet<&str> = TABLES.iter().map(|t| t.name).collect();
    assert_eq!(names.len(), TABLES.len());
    let text = schema_markdown();
    for table in TABLES {
        assert!(text.contains(&format!("**`{}`**", table.name)));
        let columns: BTreeSet<&str> = table.columns.iter().map(|c| c.name).collect();
        assert_eq!(columns.len(), table.columns.len(), "{}", table.name);
        assert!(table.indexed.iter().all(|c| columns.contains(c)), "{}", table.name);
    }
}

/// Generated parts of `ARCHITECTURE.md`; `make docs` rewrites them.
#[test]
fn the_documentation_lists_the_tables_and_messages_that_there_are() {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("ARCHITECTURE.md");
    let mut document = std::fs::read_to_string(&path).unwrap();
    let before = document.clone();
    let parts = [("tables", schema_markdown()), ("messages", crate::repo::messages_markdown())];
    for (name, text) in parts {
        let begin = format!("<!-- {name}: begin, written by `make docs` -->\n");
        let start = document.find(&begin).expect("the marker is there") + begin.len();
        let end = start + document[start..].find(&format!("<!-- {name}: end -->")).expect("an end");
        document.replace_range(start..end, &format!("{}\n", text.trim_end_matches('\n')));
    }
    if document != before {
        let update = std::env::var_os("UPDATE_EXPECT").is_some();
        assert!(update, "ARCHITECTURE.md is out of date; run `make docs`");
        std::fs::write(&path, document).unwrap();
    }
}
