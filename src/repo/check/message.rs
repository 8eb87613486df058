//! The messages: pylint's ids and symbols, and sets of them.
//!
//! # Place
//! Used by every check and by whoever chooses among messages.

/// One kind of finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Message {
    SyntaxError,
    FunctionRedefined,
    NoSelfArgument,
    ImportError,
    UndefinedVariable,
    NoNameInModule,
    NoMember,
    NotCallable,
    AssignmentFromNoReturn,
    NoValueForParameter,
    TooManyFunctionArgs,
    UnexpectedKeywordArg,
    NotAnIterable,
    UnsubscriptableObject,
}

impl Message {
    pub const ALL: [Self; 14] = [
        Self::SyntaxError,
        Self::FunctionRedefined,
        Self::NoSelfArgument,
        Self::ImportError,
        Self::UndefinedVariable,
        Self::NoNameInModule,
        Self::NoMember,
        Self::NotCallable,
        Self::AssignmentFromNoReturn,
        Self::NoValueForParameter,
        Self::TooManyFunctionArgs,
        Self::UnexpectedKeywordArg,
        Self::NotAnIterable,
        Self::UnsubscriptableObject,
    ];

    /// Id, symbol, and what it means in one line.
    const fn row(self) -> (&'static str, &'static str, &'static str) {
        match self {
            Self::SyntaxError => ("E0001", "syntax-error", "the file is not Python"),
            Self::FunctionRedefined => {
                ("E0102", "function-redefined", "a function or class is defined twice in one scope")
            }
            Self::NoSelfArgument => {
                ("E0213", "no-self-argument", "a method's first parameter is not self")
            }
            Self::ImportError => ("E0401", "import-error", "a module cannot be found"),
            Self::UndefinedVariable => {
                ("E0602", "undefined-variable", "a name is bound in no scope that can be seen")
            }
            Self::NoNameInModule => {
                ("E0611", "no-name-in-module", "a module has no name that is imported from it")
            }
            Self::NoMember => ("E1101", "no-member", "a value has no such attribute"),
            Self::NotCallable => ("E1102", "not-callable", "what is called cannot be called"),
            Self::AssignmentFromNoReturn => (
                "E1111",
                "assignment-from-no-return",
                "the result of a function that returns nothing is assigned",
            ),
            Self::NoValueForParameter => {
                ("E1120", "no-value-for-parameter", "a call leaves out an argument")
            }
            Self::TooManyFunctionArgs => {
                ("E1121", "too-many-function-args", "a call has more positional arguments than fit")
            }
            Self::UnexpectedKeywordArg => {
                ("E1123", "unexpected-keyword-arg", "a call names a parameter that does not exist")
            }
            Self::NotAnIterable => {
                ("E1133", "not-an-iterable", "what is iterated over cannot be iterated over")
            }
            Self::UnsubscriptableObject => {
                ("E1136", "unsubscriptable-object", "what is subscripted has no items")
            }
        }
    }

    /// `E1101`.
    pub const fn id(self) -> &'static str {
        self.row().0
    }

    /// `no-member`.
    pub const fn symbol(self) -> &'static str {
        self.row().1
    }

    pub const fn meaning(self) -> &'static str {
        self.row().2
    }

    /// A message by its id or symbol.
    pub fn named(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|m| m.id().eq_ignore_ascii_case(text) || m.symbol() == text)
    }

    const fn bit(self) -> u16 {
        1 << self as u16
    }
}

/// Some of the messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MessageSet(u16);

impl MessageSet {
    pub const EMPTY: Self = Self(0);

    pub fn all() -> Self {
        Message::ALL.into_iter().collect()
    }

    pub fn contains(self, message: Message) -> bool {
        self.0 & message.bit() != 0
    }

    pub fn insert(&mut self, message: Message) {
        self.0 |= message.bit();
    }

    pub fn remove(&mut self, message: Message) {
        self.0 &= !message.bit();
    }

    pub fn iter(self) -> impl Iterator<Item = Message> {
        Message::ALL.into_iter().filter(move |m| self.contains(*m))
    }

    /// What `text` names in a pylint comment or option: an id, a symbol, a category (`E`), `all`. Empty for
    /// messages that are not ours.
    pub fn named(text: &str) -> Self {
        match text {
            "all" | "E" => Self::all(),
            _ => Message::named(text).into_iter().collect(),
        }
    }
}

impl FromIterator<Message> for MessageSet {
    fn from_iter<I: IntoIterator<Item = Message>>(messages: I) -> Self {
        let mut set = Self::EMPTY;
        messages.into_iter().for_each(|m| set.insert(m));
        set
    }
}

/// The messages as a Markdown table, for the documentation.
pub fn messages_markdown() -> String {
    let mut text = String::from("| id | symbol | what it says |\n|---|---|---|\n");
    for m in Message::ALL {
        text.push_str(&format!("| {} | {} | {} |\n", m.id(), m.symbol(), m.meaning()));
    }
    text
}
