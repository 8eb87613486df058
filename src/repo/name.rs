//! Identifiers as small numbers, normalised the way Python compares them.
//!
//! # Place
//! Uses nothing of `repo`. Used by every part of it.
//! # Invariants
//! - Two identifiers are the same name to Python exactly when their [`Name`]s are equal (NFKC is
//!   applied on the way in).
//! - The table only grows and lives as long as the process: names are shared by all snapshots of all
//!   projects, and a program meets few distinct ones (about one per four lines of source).

use rustc_hash::FxHashMap;
use std::sync::{LazyLock, RwLock};
use unicode_normalization::{IsNormalized, UnicodeNormalization, is_nfkc_quick};

/// An interned identifier (or dotted module name).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Name(u32);

#[derive(Default)]
struct Table {
    by_text: FxHashMap<&'static str, u32>,
    texts: Vec<&'static str>,
}

impl Table {
    fn insert(&mut self, text: &str) -> u32 {
        if let Some(&id) = self.by_text.get(text) {
            return id;
        }
        let id = u32::try_from(self.texts.len()).expect("fewer than 2^32 distinct names");
        let text: &'static str = Box::leak(text.into());
        self.texts.push(text);
        self.by_text.insert(text, id);
        id
    }
}

static TABLE: LazyLock<RwLock<Table>> = LazyLock::new(|| {
    let mut table = Table::default();
    for text in KNOWN {
        table.insert(text);
    }
    RwLock::new(table)
});

impl Name {
    /// The name of an identifier as written; normalises when it is not plain ASCII.
    pub(crate) fn new(text: &str) -> Self {
        if !text.is_ascii() && is_nfkc_quick(text.chars()) != IsNormalized::Yes {
            let normal: String = text.nfkc().collect();
            return Self::plain(&normal);
        }
        Self::plain(text)
    }

    fn plain(text: &str) -> Self {
        if let Some(found) = Self::lookup(text) {
            return found;
        }
        let mut table = TABLE.write().unwrap_or_else(std::sync::PoisonError::into_inner);
        Self(table.insert(text))
    }

    /// The name of normalised text, if anything was ever called that.
    pub(crate) fn lookup(text: &str) -> Option<Self> {
        let table = TABLE.read().unwrap_or_else(std::sync::PoisonError::into_inner);
        table.by_text.get(text).map(|&id| Self(id))
    }

    /// The text.
    pub(crate) fn as_str(self) -> &'static str {
        let table = TABLE.read().unwrap_or_else(std::sync::PoisonError::into_inner);
        table.texts[self.0 as usize]
    }

    /// `__name__`: begins and ends with two underscores.
    pub(crate) fn is_dunder(self) -> bool {
        let s = self.as_str();
        s.len() > 4 && s.starts_with("__") && s.ends_with("__")
    }

    /// `__name`: mangled by Python inside a class body.
    pub(crate) fn is_mangled(self) -> bool {
        let s = self.as_str();
        s.starts_with("__") && !s.ends_with("__")
    }

    /// Not exported by a star import without `__all__`.
    pub(crate) fn is_underscored(self) -> bool {
        self.as_str().starts_with('_')
    }
}

impl std::fmt::Debug for Name {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

impl std::fmt::Display for Name {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

macro_rules! known_names {
    ($($id:ident = $text:literal),* $(,)?) => {
        /// Names the analysis itself knows.
        #[allow(non_camel_case_types, clippy::upper_case_acronyms)]
        enum Index { $($id),* }
        const KNOWN: &[&str] = &[$($text),*];
        #[allow(dead_code)] // The table is a vocabulary: an entry may wait for its first use.
        impl Name {
            $(pub(crate) const $id: Name = Name(Index::$id as u32);)*
        }
    };
}

known_names! {
    EMPTY = "",
    CURSOR = "\u{0}cursor",
    SELF = "self",
    CLS = "cls",
    OBJECT = "object",
    TYPE = "type",
    INIT = "__init__",
    NEW = "__new__",
    CALL = "__call__",
    GETATTR_METHOD = "__getattr__",
    GETATTRIBUTE = "__getattribute__",
    SETATTR_METHOD = "__setattr__",
    DIR = "__dir__",
    GET = "__get__",
    SET = "__set__",
    SLOTS = "__slots__",
    DICT_ATTR = "__dict__",
    CLASS_ATTR = "__class__",
    ALL = "__all__",
    PATH_ATTR = "__path__",
    FILE_ATTR = "__file__",
    NAME_ATTR = "__name__",
    ENTER = "__enter__",
    AENTER = "__aenter__",
    ITER = "__iter__",
    NEXT = "__next__",
    AITER = "__aiter__",
    ANEXT = "__anext__",
    AWAIT = "__await__",
    GETITEM = "__getitem__",
    CLASS_GETITEM = "__class_getitem__",
    INIT_SUBCLASS = "__init_subclass__",
    SET_NAME = "__set_name__",
    SUPER = "super",
    PROPERTY = "property",
    CLASSMETHOD = "classmethod",
    STATICMETHOD = "staticmethod",
    SETATTR = "setattr",
    GETATTR = "getattr",
    HASATTR = "hasattr",
    DELATTR = "delattr",
    ISINSTANCE = "isinstance",
    ISSUBCLASS = "issubclass",
    CALLABLE = "callable",
    VARS = "vars",
    LOCALS = "locals",
    GLOBALS = "globals",
    EXEC = "exec",
    EVAL = "eval",
    UPDATE = "update",
    SETTER = "setter",
    GETTER = "getter",
    DELETER = "deleter",
    METACLASS = "metaclass",
    BUILTINS = "builtins",
    TYPING = "typing",
    TYPING_EXTENSIONS = "typing_extensions",
    TYPES = "types",
    COLLECTIONS = "collections",
    COLLECTIONS_ABC = "collections.abc",
    ENUM = "enum",
    ABC = "abc",
    DATACLASSES = "dataclasses",
    FUNCTOOLS = "functools",
    CONTEXTLIB = "contextlib",
    ATTR = "attr",
    ATTRS = "attrs",
    OPERATOR = "operator",
    SYS = "sys",
    COPY = "copy",
    WEAKREF = "weakref",
    FIELD = "field",
    DATACLASS = "dataclass",
    NAMEDTUPLE = "namedtuple",
    NAMED_TUPLE = "NamedTuple",
    TYPED_DICT = "TypedDict",
    NEW_TYPE = "NewType",
    TYPE_VAR = "TypeVar",
    PARAM_SPEC = "ParamSpec",
    TYPE_VAR_TUPLE = "TypeVarTuple",
    TYPE_CHECKING = "TYPE_CHECKING",
    MATCH_ARGS = "__match_args__",
    UNDERSCORE = "_",
    STR = "str",
    INT = "int",
    FLOAT = "float",
    COMPLEX = "complex",
    BOOL = "bool",
    BYTES = "bytes",
    BYTEARRAY = "bytearray",
    LIST = "list",
    DICT = "dict",
    SET_TYPE = "set",
    FROZENSET = "frozenset",
    TUPLE = "tuple",
    SLICE = "slice",
    ELLIPSIS_TYPE = "ellipsis",
    NONE_TYPE = "NoneType",
    FUNCTION_TYPE = "FunctionType",
    METHOD_TYPE = "MethodType",
    MODULE_TYPE = "ModuleType",
    GENERATOR = "Generator",
    ASYNC_GENERATOR = "AsyncGenerator",
    COROUTINE = "Coroutine",
    AWAITABLE = "Awaitable",
    ITERATOR = "Iterator",
    ITERABLE = "Iterable",
    ASYNC_ITERATOR = "AsyncIterator",
    ASYNC_ITERABLE = "AsyncIterable",
    OPTIONAL = "Optional",
    UNION = "Union",
    ANY = "Any",
    CALLABLE_TYPE = "Callable",
    TYPE_UPPER = "Type",
    CLASS_VAR = "ClassVar",
    FINAL = "Final",
    ANNOTATED = "Annotated",
    LITERAL = "Literal",
    SELF_TYPE = "Self",
    GENERIC = "Generic",
    PROTOCOL = "Protocol",
    REQUIRED = "Required",
    NOT_REQUIRED = "NotRequired",
    READ_ONLY = "ReadOnly",
    TYPE_GUARD = "TypeGuard",
    TYPE_IS = "TypeIs",
    CONCATENATE = "Concatenate",
    UNPACK = "Unpack",
    NO_RETURN = "NoReturn",
    NEVER = "Never",
    LITERAL_STRING = "LiteralString",
    TYPE_ALIAS = "TypeAlias",
    CAST = "cast",
    OVERLOAD = "overload",
    ENUM_TYPE = "Enum",
    ENUM_META = "EnumMeta",
    ENUM_TYPE_META = "EnumType",
    ABC_META = "ABCMeta",
    INIT_VAR = "InitVar",
    KW_ONLY = "KW_ONLY",
    WRAPS = "wraps",
    PARTIAL = "partial",
    CACHED_PROPERTY = "cached_property",
    LRU_CACHE = "lru_cache",
    CACHE = "cache",
    SINGLEDISPATCH = "singledispatch",
    SINGLEDISPATCHMETHOD = "singledispatchmethod",
    TOTAL_ORDERING = "total_ordering",
    CONTEXTMANAGER = "contextmanager",
    ASYNCCONTEXTMANAGER = "asynccontextmanager",
    ABSTRACTMETHOD = "abstractmethod",
    ABSTRACTPROPERTY = "abstractproperty",
    RENAME = "rename",
    VALUE = "value",
    VALUE_PRIVATE = "_value_",
    NAME_WORD = "name",
    KEYS = "keys",
    VALUES = "values",
    ITEMS = "items",
    APPEND = "append",
    EXTEND = "extend",
    REMOVE = "remove",
    ADD = "__add__",
    DEFAULT_FACTORY = "default_factory",
    FACTORY = "factory",
    DEFAULT = "default",
    ATTRIB = "attrib",
    IB = "ib",
    S = "s",
    DEFINE = "define",
    MUTABLE = "mutable",
    FROZEN = "frozen",
    THESE = "these",
    MAKE_CLASS = "make_class",
    OPEN = "open",
    ANNOTATIONS = "__annotations__",
    DOC = "__doc__",
    MODULE_ATTR = "__module__",
    QUALNAME = "__qualname__",
    LEN = "__len__",
    ITER_FN = "iter",
    NEXT_FN = "next",
    DATACLASS_TRANSFORM = "dataclass_transform",
    IMPORT_MODULE = "import_module",
    IMPORT_FN = "__import__",
    DOUBLE_CURSOR = "\u{0}cursor2",
    LAMBDA = "<lambda>",
    NAMEDTUPLE_ASDICT = "_asdict",
    NAMEDTUPLE_REPLACE = "_replace",
    NAMEDTUPLE_FIELDS = "_fields",
    NAMEDTUPLE_MAKE = "_make",
    NAMEDTUPLE_DEFAULTS = "_field_defaults",
    MAIN = "__main__",
    INIT_FILE = "__init__.py",
    MEMBERS = "__members__",
    IGNORE = "_ignore_",
    DEFAULTDICT = "defaultdict",
    ORDERED_DICT = "OrderedDict",
    DEQUE = "deque",
    COUNTER = "Counter",
    CHAIN_MAP = "ChainMap",
    LIST_UPPER = "List",
    DICT_UPPER = "Dict",
    SET_UPPER = "Set",
    FROZENSET_UPPER = "FrozenSet",
    TUPLE_UPPER = "Tuple",
    DEFAULTDICT_UPPER = "DefaultDict",
    DEQUE_UPPER = "Deque",
    POST_INIT = "__attrs_post_init__",
    ARGS = "args",
    KWARGS = "kwargs",
    GET_METHOD = "get",
    TEXT = "Text",
    CONTEXT_MANAGER = "ContextManager",
    ASYNC_CONTEXT_MANAGER = "AsyncContextManager",
    ABSTRACT_CONTEXT_MANAGER = "AbstractContextManager",
    ABSTRACT_ASYNC_CONTEXT_MANAGER = "AbstractAsyncContextManager",
    PATTERN = "Pattern",
    MATCH = "Match",
    RE = "re",
    OPTIONAL_ARG = "Arg",
    UNIX = "posix",
    DEEPCOPY = "deepcopy",
    PATH = "path",
    REVEAL_TYPE = "reveal_type",
    NO_TYPE_CHECK = "no_type_check",
    RUNTIME_CHECKABLE = "runtime_checkable",
    FINAL_DECORATOR = "final",
    DEPRECATED = "deprecated",
    OVERRIDE = "override",
    UNIQUE = "unique",
    VERIFY = "verify",
    REGISTER = "register",
    COROUTINE_FN = "coroutine",
    BUILTINS_PRIVATE = "__builtins__",
    ATTR_ERROR = "AttributeError",
    NAME_ERROR = "NameError",
    EXCEPTION = "Exception",
    BASE_EXCEPTION = "BaseException",
    AUTO = "auto",
    MEMBER = "member",
    NONMEMBER = "nonmember",
    PROXY = "proxy",
    ITEMGETTER = "itemgetter",
    ATTRGETTER = "attrgetter",
    METHODCALLER = "methodcaller",
    SUPER_INIT = "super().__init__",
    COLLECTIONS_PRIVATE = "_collections_abc",
    TYPESHED_PRIVATE = "_typeshed",
    SPEC = "__spec__",
    LOADER = "__loader__",
    PACKAGE = "__package__",
    CACHED = "__cached__",
    DATACLASS_FIELDS = "__dataclass_fields__",
    DATACLASS_PARAMS = "__dataclass_params__",
    ATTRS_ATTRS = "__attrs_attrs__",
    MODULE = "module",
    ATTRS_NEXT_GEN = "_next_gen",
    ATTRS_MAKE = "_make_attrs",
    DEFAULT_FIELD = "_field",
    CLASS_PROPERTY = "DynamicClassAttribute",
    ENUM_PROPERTY = "_magic_enum_attr",
    FUNCTION_WORD = "function",
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_names_have_the_ids_of_their_constants() {
        assert_eq!(Name::new("self"), Name::SELF);
        assert_eq!(Name::METACLASS.as_str(), "metaclass");
        assert_eq!(Name::new("module"), Name::MODULE);
    }

    #[test]
    fn known_names_are_distinct() {
        let mut texts: Vec<&str> = KNOWN.to_vec();
        texts.sort_unstable();
        let n = texts.len();
        texts.dedup();
        assert_eq!(texts.len(), n);
    }

    #[test]
    fn identifiers_are_compared_after_nfkc() {
        assert_eq!(Name::new("ﬁeld"), Name::new("field"));
        assert_ne!(Name::new("naïve"), Name::new("naive"));
    }
}
