//! Words that never get a trigger: ToolGen's list.
//!
//! # Place
//! Part of `augment`; data only.
//! # Sources
//! The 182 words of the paper's published program, in its five groups.

use std::collections::HashSet;
use std::sync::LazyLock;

/// Attributes that every object has.
const ATTRIBUTES: &str = "__annotations__ __class__ __delattr__ __dict__ __dir__ __doc__ __eq__ __format__ \
    __getattribute__ __getstate__ __hash__ __init__ __init_subclass__ __module__ __ne__ __new__ __reduce__ \
    __reduce_ex__ __repr__ __setattr__ __setstate__ __sizeof__ __slots__ __str__";
/// Functions and types that need no import.
const FUNCTIONS: &str = "abs all any ascii bin bool bytearray bytes callable chr classmethod compile complex \
    delattr dict dir divmod enumerate eval exec filter float format frozenset getattr globals hasattr hash help \
    hex id input int isinstance issubclass iter len list locals map max memoryview min next object oct open ord \
    pow print property range repr reversed round set setattr slice sorted staticmethod str sum super tuple type \
    vars zip";
const EXCEPTIONS: &str = "AssertionError ArithmeticError AttributeError EOFError FloatingPointError \
    GeneratorExit ImportError IndexError KeyError KeyboardInterrupt MemoryError NameError NotImplementedError \
    OSError OverflowError ReferenceError RuntimeError StopIteration SyntaxError IndentationError TabError \
    SystemError SystemExit TypeError UnboundLocalError UnicodeError UnicodeEncodeError UnicodeDecodeError \
    UnicodeTranslateError ValueError ZeroDivisionError";
const KEYWORDS: &str = "False await else import pass None break except in raise True class finally is return \
    and continue for lambda try as def from nonlocal while assert del global not with async elif if or yield \
    self";
const OPERATORS: &str = "( ) [ ] { } ; , : . + - * / // % ** = < > <= >= == !=";

static SKIPPED: LazyLock<HashSet<&'static str>> = LazyLock::new(|| {
    [ATTRIBUTES, FUNCTIONS, EXCEPTIONS, KEYWORDS, OPERATORS]
        .iter()
        .flat_map(|group| group.split_whitespace())
        .collect()
});

/// Does this word stay without a trigger?
pub(super) fn is_skipped(word: &str) -> bool {
    SKIPPED.contains(word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_has_the_published_number_of_words_and_its_published_gaps() {
        let counts = [ATTRIBUTES, FUNCTIONS, EXCEPTIONS, KEYWORDS, OPERATORS]
            .map(|group| group.split_whitespace().count());
        assert_eq!(counts, [24, 67, 31, 36, 24]);
        assert_eq!(SKIPPED.len(), 182, "no word stands twice");
        assert!(is_skipped("self") && is_skipped("//"));
        assert!(!is_skipped("cls") && !is_skipped("Exception") && !is_skipped("__name__"));
    }
}
