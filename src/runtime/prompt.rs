//! What a model is shown before it writes code: the file up to the cursor, cut from the top to fit.
//!
//! # Place
//! Part of `runtime`.

use crate::constrain::PythonLexer;

/// Byte offsets in `text` at which a definition or statement begins whose line has the smallest
/// indentation of a block: the places where the text before may be left out. Decorators belong to
/// what they decorate. Ascending, beginning with 0.
pub(super) fn cut_points(text: &str) -> Vec<usize> {
    let mut points = vec![0];
    let mut lexer = PythonLexer::new();
    let mut after_decorator = false;
    let mut start = 0;
    for line in text.split_inclusive('\n') {
        let begins = !lexer.is_inside();
        let first = line.as_bytes().first().copied().unwrap_or(b'\n');
        if begins && !first.is_ascii_whitespace() && !matches!(first, b'#' | b')' | b']' | b'}') {
            if !after_decorator && start > 0 {
                points.push(start);
            }
            after_decorator = first == b'@';
        }
        lexer.push_all(line.as_bytes());
        start += line.len();
    }
    points
}

/// Cut points inside the last top-level block of `text`: the methods of the class that the cursor is
/// in. Each comes with the end of the class header that must be kept before it.
pub(super) fn inner_cut_points(text: &str) -> Option<(std::ops::Range<usize>, Vec<usize>)> {
    let top = *cut_points(text).last()?;
    let block = &text[top..];
    let mut lexer = PythonLexer::new();
    let mut start = top;
    let mut header: Option<std::ops::Range<usize>> = None;
    let mut indent: Option<usize> = None;
    let mut after_decorator = false;
    let mut points = Vec::new();
    let mut in_header = false;
    for line in block.split_inclusive('\n') {
        let begins = !lexer.is_inside() && !line.trim().is_empty();
        let width = line.len() - line.trim_start().len();
        if begins && width == 0 && line.starts_with("class ") {
            header = Some(top..start + line.len());
            in_header = true;
        } else if in_header && !begins {
            header = Some(top..start + line.len()); // the header goes on over several lines
        } else if begins && header.is_some() && width > 0 {
            let inner = *indent.get_or_insert(width);
            let code = line.trim_start();
            let is_definition =
                ["def ", "async def ", "@", "class "].iter().any(|k| code.starts_with(k));
            if width == inner && is_definition {
                if !after_decorator {
                    points.push(start);
                }
                after_decorator = code.starts_with('@');
            }
        } else if begins && header.is_none() && width == 0 && !line.starts_with('@') {
            return None;
        }
        lexer.push_all(line.as_bytes());
        in_header &= lexer.is_inside();
        start += line.len();
    }
    header.map(|h| (h, points))
}

/// The longest tail of `text` that `fits`, cut at whole definitions: first top-level ones, then the
/// methods of the class around the cursor (whose header stays). When the last definition alone does
/// not fit, its first lines are left out; when not even the last line fits, that line is returned.
pub(super) fn cut_to_fit(text: &str, mut fits: impl FnMut(&str) -> bool) -> String {
    // Longer tails need more room, so the first cut that fits can be searched for.
    let points = cut_points(text);
    let first = points.partition_point(|&p| !fits(&text[p..]));
    if let Some(&point) = points.get(first) {
        return text[point..].to_owned();
    }
    let mut last = points.last().copied().unwrap_or(0);
    if let Some((header, inner)) = inner_cut_points(text) {
        let tail = |p: usize| format!("{}{}", &text[header.clone()], &text[p..]);
        let first = inner.partition_point(|&p| !fits(&tail(p)));
        if let Some(&point) = inner.get(first) {
            return tail(point);
        }
        last = inner.last().copied().unwrap_or(last);
    }
    let lines: Vec<usize> = std::iter::once(last)
        .chain(text[last..].match_indices('\n').map(|(i, _)| last + i + 1))
        .collect();
    let first = lines.partition_point(|&p| !fits(&text[p..]));
    let point = lines.get(first).or(lines.last()).copied().unwrap_or(last);
    text[point..].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "import a\n\nX = '''\nnot code\n'''\n\n@d\ndef f(\n):\n    pass\n\nclass C(B):\n    \"\"\"doc\"\"\"\n\n    y = 1\n\n    @p\n    def g(self):\n        pass\n\n    def h(self):\n        ";

    fn parts(max: usize) -> String {
        cut_to_fit(FILE, |t| t.len() <= max)
    }

    #[test]
    fn whole_definitions_are_left_out_from_the_top() {
        assert_eq!(parts(1000), FILE);
        assert!(parts(FILE.len() - 1).starts_with("X = '''\nnot code"));
        assert!(parts(FILE.len() - 30).starts_with("@d\ndef f"));
        let class = FILE.len() - FILE.find("class").expect("there");
        assert!(parts(class).starts_with("class C(B):\n    \"\"\"doc"));
    }

    #[test]
    fn methods_are_left_out_but_the_class_header_stays() {
        let class = FILE.len() - FILE.find("class").expect("there");
        assert!(parts(class - 1).starts_with("class C(B):\n    @p\n    def g"));
        assert!(parts(40).starts_with("class C(B):\n    def h"));
        assert_eq!(parts(30), "    def h(self):\n        ");
        assert_eq!(parts(3), "        ", "the line of the cursor");
    }

    #[test]
    fn when_no_definition_fits_the_lines_nearest_to_the_cursor_are_kept() {
        assert_eq!(cut_to_fit("def f():\n    ", |_| false), "    ");
        assert_eq!(cut_to_fit("def f():\n    ", |t| t.len() < 20), "def f():\n    ");
        assert_eq!(cut_to_fit("", |_| false), "");
    }
}
