//! Any bytes as Python text: the lexer takes them all, and does not care how they are cut.

use tether::constrain::PythonLexer;

/// Returns whether the text ends where a name may begin.
pub fn run(data: &[u8]) -> bool {
    let mut whole = PythonLexer::new();
    whole.push_all(data);
    let mut bytewise = PythonLexer::new();
    for &byte in data {
        bytewise.push(byte);
    }
    assert_eq!(whole.place(), bytewise.place());
    assert_eq!(whole.is_inside(), bytewise.is_inside());
    whole.place().is_some()
}
