//! Where a function body ends: at the first line that leaves its indentation.
//!
//! # Place
//! Part of `runtime`; a [`StopRule`] over the bytes that the engine writes. Uses the Python lexer of
//! `constrain` to know which line ends are inside brackets or strings.
//! # Sources
//! Python Language Reference 3.14, 2.1.8: tabs advance to the next multiple of eight columns.

use crate::constrain::PythonLexer;
use crate::engine::StopRule;

/// Ends the text before the first logical line whose indentation is smaller than the body's.
#[derive(Clone)]
pub(super) struct BodyRule {
    lexer: PythonLexer,
    indent_cols: usize,
    n_bytes: usize,
    line: Line,
}

/// The line being written.
#[derive(Clone)]
enum Line {
    /// Only white space so far: where the line starts, and its width in columns.
    Blank { start: usize, cols: usize },
    /// Something stands in it, or it continues an earlier one.
    Begun,
}

impl BodyRule {
    /// For text that goes on after `prefix` (which ends with the body's first indentation), with a
    /// body indented by `indent_cols` columns.
    pub(super) fn new(prefix: &[u8], indent_cols: usize) -> Self {
        let mut lexer = PythonLexer::new();
        lexer.push_all(prefix);
        Self { lexer, indent_cols, n_bytes: 0, line: Line::Begun }
    }
}

impl StopRule for BodyRule {
    fn push(&mut self, bytes: &[u8]) -> Option<usize> {
        for &byte in bytes {
            match (&mut self.line, byte) {
                (_, b'\n' | b'\r') => {}
                (Line::Blank { cols, .. }, b' ') => *cols += 1,
                (Line::Blank { cols, .. }, b'\t') => *cols = (*cols / 8 + 1) * 8,
                (Line::Blank { cols, .. }, b'\x0c') => *cols = 0,
                (Line::Blank { start, cols }, _) => {
                    if *cols < self.indent_cols {
                        return Some(*start);
                    }
                    self.line = Line::Begun;
                }
                (Line::Begun, _) => {}
            }
            let is_continued = self.lexer.is_continued();
            self.lexer.push(byte);
            self.n_bytes += 1;
            if matches!(byte, b'\n' | b'\r') {
                self.line = if is_continued || self.lexer.is_inside() {
                    Line::Begun
                } else {
                    Line::Blank { start: self.n_bytes, cols: 0 }
                };
            }
        }
        None
    }

    fn clone_box(&self) -> Box<dyn StopRule> {
        Box::new(self.clone())
    }
}

/// Width in columns of a line's leading white space.
pub(super) fn indent_cols(indent: &str) -> usize {
    indent.bytes().fold(0, |cols, b| if b == b'\t' { (cols / 8 + 1) * 8 } else { cols + 1 })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The body that is kept of `text`, written byte by byte and in one piece.
    #[track_caller]
    fn check(prefix: &str, indent: usize, text: &str, kept: &str) {
        let mut whole = BodyRule::new(prefix.as_bytes(), indent);
        let end = whole.push(text.as_bytes());
        assert_eq!(&text[..end.unwrap_or(text.len())], kept);
        let mut bytewise = BodyRule::new(prefix.as_bytes(), indent);
        let by_byte = text.bytes().find_map(|b| bytewise.push(&[b]));
        assert_eq!(by_byte, end, "pieces do not matter");
    }

    #[test]
    fn a_body_ends_before_the_first_line_that_leaves_its_indentation() {
        check("def f():\n    ", 4, "return 1\n\ndef g():\n", "return 1\n\n");
        check("def f():\n    ", 4, "if x:\n        y\n    z\n```\n", "if x:\n        y\n    z\n");
        check("def f():\n    ", 4, "x = 1\n  # nearer\n", "x = 1\n");
    }

    #[test]
    fn lines_inside_brackets_strings_and_continuations_do_not_end_it() {
        check("def f():\n    ", 4, "x = [\n1,\n]\n    return x\nz", "x = [\n1,\n]\n    return x\n");
        check("def f():\n    ", 4, "s = '''a\nb'''\n    t\n@x", "s = '''a\nb'''\n    t\n");
        check("def f():\n    ", 4, "x = 1 + \\\n2\n    y\nz", "x = 1 + \\\n2\n    y\n");
        check("def f():\n    ", 4, "# it's (here\nz", "# it's (here\n");
    }

    #[test]
    fn tabs_and_other_line_ends_count_as_python_counts_them() {
        check("class C:\n\tdef f():\n\t\t", 16, "a\r\n\t\tb\r\n\tdef", "a\r\n\t\tb\r\n");
        check("def f():\n    ", 4, "a\r    b\rc", "a\r    b\r");
    }

    #[test]
    fn blank_lines_and_text_without_an_end_are_kept() {
        check("def f():\n    ", 4, "a\n\n   \n    b\n", "a\n\n   \n    b\n");
    }
}
