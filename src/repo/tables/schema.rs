//! Which tables there are: names, columns, what each column holds. The statements that make them and the
//! documentation are written from this list.
//!
//! # Place
//! Read by whoever fills, queries or documents the tables.

/// One column.
#[derive(Clone, Copy, Debug)]
pub struct Column {
    pub name: &'static str,
    pub sql_type: &'static str,
    pub meaning: &'static str,
}

/// One table.
#[derive(Clone, Copy, Debug)]
pub struct Table {
    pub name: &'static str,
    pub meaning: &'static str,
    pub columns: &'static [Column],
    /// Columns that are looked up by value.
    pub indexed: &'static [&'static str],
}

const fn text(name: &'static str, meaning: &'static str) -> Column {
    Column { name, sql_type: "TEXT", meaning }
}

const fn integer(name: &'static str, meaning: &'static str) -> Column {
    Column { name, sql_type: "INTEGER", meaning }
}

const fn key(name: &'static str, meaning: &'static str) -> Column {
    Column { name, sql_type: "INTEGER PRIMARY KEY", meaning }
}

const M: Column = text("m", "`Module a.b.c`");
const C: Column = text("c", "`Class X`; a class in a class is `Class X.Y`");
const FILE: Column = text("file", "path from the root");
const START: Column = integer("start_line", "its first line, decorators included, from 1");
const END: Column = integer("end_line", "its last line");
const CONTENT: Column = text("content", "its text");
const FILE_ID: Column = integer("file_id", "`files.id`");
const LINE: Column = integer("line", "from 1");
const COL: Column = integer("col", "in characters, from 1");

/// Every table, CoCoGen's first.
pub const TABLES: &[Table] = &[
    Table {
        name: "M",
        meaning: "modules and their place in the hierarchy",
        columns: &[
            M,
            text("mname", "the last part of its name"),
            text("parent", "the package it is in, `Module a.b`; null at the top"),
            integer("is_package", "1 for a package"),
            FILE,
        ],
        indexed: &["m"],
    },
    Table {
        name: "M_C",
        meaning: "module, class",
        columns: &[M, C, text("cname", "the class's name"), CONTENT, FILE, START, END],
        indexed: &["cname"],
    },
    Table {
        name: "M_C_CF",
        meaning: "module, class, member function",
        columns: &[
            M,
            C,
            text("cf", "`Function f`"),
            text("cfname", "the function's name"),
            text("head", "its head on one line"),
            CONTENT,
            FILE,
            START,
            END,
        ],
        indexed: &["cfname", "c"],
    },
    Table {
        name: "M_C_V",
        meaning: "module, class, class variable (also attributes that methods assign)",
        columns: &[
            M,
            C,
            text("cv", "`Variable v`"),
            text("cvname", "the variable's name"),
            CONTENT,
            FILE,
            START,
            END,
        ],
        indexed: &["cvname", "c"],
    },
    Table {
        name: "M_GF",
        meaning: "module, global function",
        columns: &[
            M,
            text("gf", "`Function f`"),
            text("gfname", "the function's name"),
            text("head", "its head on one line"),
            CONTENT,
            FILE,
            START,
            END,
        ],
        indexed: &["gfname"],
    },
    Table {
        name: "M_GV",
        meaning: "module, global variable",
        columns: &[
            M,
            text("gv", "`Variable v`"),
            text("gvname", "the variable's name"),
            CONTENT,
            FILE,
            START,
            END,
        ],
        indexed: &["gvname"],
    },
    Table {
        name: "files",
        meaning: "analysed files",
        columns: &[
            key("id", "number of the file"),
            text("path", "from the root"),
            text("module", "dotted name; empty outside the source roots"),
            integer("is_package", "1 for `__init__` files"),
            integer("is_stub", "1 for `.pyi`"),
            integer("n_lines", "lines"),
            integer("n_bytes", "bytes of decoded text"),
            integer("n_errors", "places that do not parse"),
        ],
        indexed: &["module"],
    },
    Table {
        name: "definitions",
        meaning: "modules, classes, functions, variables, attributes",
        columns: &[
            key("id", "number of the definition"),
            FILE_ID,
            integer("parent_id", "the definition around it; null for a module"),
            text("kind", "module, class, function, method, property, variable, attribute"),
            text("name", "its name"),
            text("qualified_name", "`Class.method`; empty for a module"),
            text("module", "dotted name of its module"),
            integer("line", "where the name stands, from 1"),
            COL,
            integer("first_line", "decorators included"),
            integer("end_line", "its last line"),
            integer("start_byte", "of its text in the file"),
            integer("end_byte", "just after its text"),
            text("signature", "head of a function or class on one line"),
            text("docstring", "cleaned of quotes and indentation"),
            text("decorators", "JSON list of their texts"),
            text("type", "annotation of a variable, or of what a function returns"),
            integer("is_async", "1 for `async def`"),
        ],
        indexed: &["name", "qualified_name", "parent_id"],
    },
    Table {
        name: "parameters",
        meaning: "parameters of functions",
        columns: &[
            integer("definition_id", "`definitions.id` of the function"),
            integer("position", "from 0"),
            text("name", "its name"),
            text("kind", "positional, normal, varargs, keyword, varkeywords"),
            text("annotation", "as written"),
            text("default_value", "as written; null when it has to be given"),
        ],
        indexed: &["definition_id"],
    },
    Table {
        name: "bases",
        meaning: "what stands in the parentheses of classes",
        columns: &[
            integer("definition_id", "`definitions.id` of the class"),
            integer("position", "from 0"),
            text("keyword", "`metaclass` and the like; null for a base"),
            text("expression", "as written"),
            text("resolved", "`module:Class` when it is known"),
            integer("base_id", "`definitions.id` when it is a class of the project"),
        ],
        indexed: &["definition_id", "base_id"],
    },
    Table {
        name: "imports",
        meaning: "names that import statements bind",
        columns: &[
            FILE_ID,
            LINE,
            text("module", "absolute dotted name of the module"),
            text("name", "name taken from it; null for `import m`, `*` for a star"),
            text("alias", "name that is bound"),
            integer("level", "leading dots"),
            text("origin", "project, stdlib, package, builtin, or unknown when it is not found"),
        ],
        indexed: &["module", "name"],
    },
    Table {
        name: "refs",
        meaning: "names that are read, and what they mean",
        columns: &[
            FILE_ID,
            LINE,
            COL,
            text("name", "as Python compares it"),
            text("kind", "name, attribute, or call (of a name or attribute)"),
            integer("in_id", "`definitions.id` of the definition that it stands in"),
            text("target", "`module:Qualified.name` when it is one definition that is known"),
            integer("target_id", "`definitions.id` when it is one of the project"),
        ],
        indexed: &["name", "target_id"],
    },
    Table {
        name: "errors",
        meaning: "places that do not parse",
        columns: &[FILE_ID, LINE, COL, text("message", "what was expected")],
        indexed: &[],
    },
];

impl Table {
    pub(super) fn create(&self) -> String {
        let columns: Vec<String> =
            self.columns.iter().map(|c| format!("{} {}", c.name, c.sql_type)).collect();
        format!("CREATE TABLE {} ({});", self.name, columns.join(", "))
    }

    pub(super) fn index(&self) -> String {
        let index = |c: &&str| format!("CREATE INDEX {0}_{c} ON {0} ({c});", self.name);
        self.indexed.iter().map(index).collect()
    }

    pub(super) fn insert(&self) -> String {
        let marks = vec!["?"; self.columns.len()].join(", ");
        format!("INSERT INTO {} VALUES ({marks})", self.name)
    }
}

/// The tables as a Markdown list, for the documentation.
pub fn schema_markdown() -> String {
    let mut text = String::new();
    for table in TABLES {
        text.push_str(&format!("\n**`{}`**: {}\n\n", table.name, table.meaning));
        text.push_str("| column | type | what it holds |\n|---|---|---|\n");
        for c in table.columns {
            text.push_str(&format!("| `{}` | {} | {} |\n", c.name, c.sql_type, c.meaning));
        }
    }
    text
}

/// The tables and their columns in one line each, for messages.
pub(super) fn summary() -> String {
    let table = |t: &Table| {
        let columns: Vec<&str> = t.columns.iter().map(|c| c.name).collect();
        format!("{}({})", t.name, columns.join(", "))
    };
    TABLES.iter().map(table).collect::<Vec<_>>().join(", ")
}
