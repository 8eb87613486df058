//! The names ToolGen never treats as dependencies.
//!
//! # Place
//! Uses nothing. The `paper` policy ignores an answer made of nothing else; trigger insertion skips them.
//! # Sources
//! The five lists of the ToolGen artifact (built-in properties, functions, exceptions, keywords, operators),
//! read as facts: 24 + 67 + 31 + 36 + 24 words.

const PROPERTIES: &str = "__annotations__ __class__ __delattr__ __dict__ __dir__ __doc__ __eq__ \
__format__ __getattribute__ __getstate__ __hash__ __init__ __init_subclass__ __module__ __ne__ \
__new__ __reduce__ __reduce_ex__ __repr__ __setattr__ __setstate__ __sizeof__ __slots__ __str__";

const FUNCTIONS: &str = "abs all any ascii bin bool bytearray bytes callable chr classmethod compile \
complex delattr dict dir divmod enumerate eval exec filter float format frozenset getattr globals \
hasattr hash help hex id input int isinstance issubclass iter len list locals map max memoryview \
min next object oct open ord pow print property range repr reversed round set setattr slice sorted \
staticmethod str sum super tuple type vars zip";

const EXCEPTIONS: &str = "AssertionError ArithmeticError AttributeError EOFError FloatingPointError \
GeneratorExit ImportError IndexError KeyError KeyboardInterrupt MemoryError NameError \
NotImplementedError OSError OverflowError ReferenceError RuntimeError StopIteration SyntaxError \
IndentationError TabError SystemError SystemExit TypeError UnboundLocalError UnicodeError \
UnicodeEncodeError UnicodeDecodeError UnicodeTranslateError ValueError ZeroDivisionError";

const KEYWORDS: &str = "False await else import pass None break except in raise True class finally is \
return and continue for lambda try as def from nonlocal while assert del global not with async elif \
if or yield self";

const OPERATORS: &str = "( ) [ ] { } ; , : . + - * / // % ** = < > <= >= == !=";

/// Whether a word is on one of the lists.
pub fn is_skipped(word: &str) -> bool {
    words().any(|w| w == word)
}

fn words() -> impl Iterator<Item = &'static str> {
    [PROPERTIES, FUNCTIONS, EXCEPTIONS, KEYWORDS, OPERATORS]
        .into_iter()
        .flat_map(str::split_whitespace)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lists_have_182_different_words_in_five_parts() {
        let counts = [PROPERTIES, FUNCTIONS, EXCEPTIONS, KEYWORDS, OPERATORS]
            .map(|list| list.split_whitespace().count());
        assert_eq!(counts, [24, 67, 31, 36, 24]);
        assert_eq!(words().collect::<std::collections::HashSet<_>>().len(), 182);
        assert!(is_skipped("self") && is_skipped("__init__") && !is_skipped("cls"));
    }
}
