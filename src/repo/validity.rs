//! Whether a text is Python at all, by tree-sitter: for machines without an interpreter to ask.
//!
//! # Place
//! Part of `repo`. A grammar that recovers from everything accepts some texts that CPython refuses
//! (an indented block that is missing, say), so "no error" is a good sign and no proof.

use tree_sitter::{Node, Parser};

/// Line (from 1) of the first place that does not parse; `None` when the grammar accepts the text.
pub fn first_syntax_error(text: &str) -> Option<u32> {
    let mut parser = Parser::new();
    let language = tree_sitter_python::LANGUAGE.into();
    parser.set_language(&language).expect("the grammar and the library are of one generation");
    let tree = parser.parse(text, None)?;
    let root = tree.root_node();
    if !root.has_error() {
        return None;
    }
    Some(deepest_error(root).start_position().row as u32 + 1)
}

/// Walks down, without recursion, to the first error.
fn deepest_error(root: Node<'_>) -> Node<'_> {
    let mut node = root;
    let mut cursor = root.walk();
    loop {
        if node.is_error() || node.is_missing() {
            return node;
        }
        let Some(child) = node.children(&mut cursor).find(|c| c.has_error() || c.is_missing())
        else {
            return node;
        };
        node = child;
    }
}

#[cfg(test)]
mod tests {
    use super::first_syntax_error;

    #[test]
    fn the_line_of_the_first_error_is_found() {
        assert_eq!(first_syntax_error("def f():\n    return 1\n"), None);
        assert_eq!(first_syntax_error("x = 1\ny = (2 +\n"), Some(2));
        assert_eq!(first_syntax_error(""), None);
    }

    #[test]
    fn deep_nesting_is_survived() {
        let text = format!("x = {}", "(".repeat(50_000));
        assert!(first_syntax_error(&text).is_some());
    }
}
