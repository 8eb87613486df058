//! Positions in text: byte offsets inside, line and column at the edges.
//!
//! # Place
//! Uses nothing.
//! # Shapes and units
//! Lines and columns count from 1; a column counts Unicode characters, as editors show them. A line
//! ends with LF, CRLF or a lone CR (Python accepts all three).

/// A line and a column, both counted from 1; columns in Unicode characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LineCol {
    pub line: u32,
    pub col: u32,
}

/// Why a position is not in a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PositionError {
    #[error("line {line} does not exist: the text has {n_lines} lines, counted from 1")]
    NoSuchLine { line: u32, n_lines: u32 },
    #[error("column {col} does not exist in line {line}: it has columns 1 to {col_max}")]
    NoSuchColumn { line: u32, col: u32, col_max: u32 },
}

/// Start offsets of the lines of one text.
#[derive(Clone, Debug)]
pub struct LineIndex {
    starts: Vec<usize>,
}

impl LineIndex {
    /// Index `text`; O(length) once.
    pub fn new(text: &str) -> Self {
        let bytes = text.as_bytes();
        let mut starts = vec![0];
        for (i, &b) in bytes.iter().enumerate() {
            if b == b'\n' || (b == b'\r' && bytes.get(i + 1) != Some(&b'\n')) {
                starts.push(i + 1);
            }
        }
        Self { starts }
    }

    /// Number of lines, at least 1.
    pub fn n_lines(&self) -> u32 {
        u32::try_from(self.starts.len()).unwrap_or(u32::MAX)
    }

    /// The bytes of a line (0-based) without its line ending.
    pub fn line<'t>(&self, text: &'t str, line_idx: usize) -> &'t str {
        let start = self.starts[line_idx];
        let end = self.starts.get(line_idx + 1).copied().unwrap_or(text.len());
        text[start..end].trim_end_matches(['\n', '\r'])
    }

    /// Byte offset where a 0-based line starts.
    pub fn line_start(&self, line_idx: usize) -> usize {
        self.starts[line_idx]
    }

    /// Byte offset of a position. The column after the last character is allowed.
    ///
    /// # Errors
    /// When the line or column does not exist.
    pub fn offset(&self, text: &str, at: LineCol) -> Result<usize, PositionError> {
        let no_line = PositionError::NoSuchLine { line: at.line, n_lines: self.n_lines() };
        let line_idx = at.line.checked_sub(1).ok_or(no_line)? as usize;
        if line_idx >= self.starts.len() {
            return Err(no_line);
        }
        let line = self.line(text, line_idx);
        let n_chars = line.chars().count();
        let col_max = u32::try_from(n_chars).unwrap_or(u32::MAX).saturating_add(1);
        if at.col == 0 || at.col > col_max {
            return Err(PositionError::NoSuchColumn { line: at.line, col: at.col, col_max });
        }
        let within = line.char_indices().nth(at.col as usize - 1).map_or(line.len(), |(i, _)| i);
        Ok(self.starts[line_idx] + within)
    }

    /// The position of a byte offset; offsets inside a character or past the end are moved back.
    pub fn position(&self, text: &str, offset: usize) -> LineCol {
        let mut offset = offset.min(text.len());
        while !text.is_char_boundary(offset) {
            offset -= 1;
        }
        let line_idx = self.starts.partition_point(|&s| s <= offset) - 1;
        let col = text[self.starts[line_idx]..offset].chars().count();
        LineCol { line: line_idx as u32 + 1, col: u32::try_from(col).unwrap_or(u32::MAX - 1) + 1 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_count_characters_and_every_line_ending() {
        let text = "s = '🦀'; z.\r\nb\rc\n";
        let index = LineIndex::new(text);
        assert_eq!(index.n_lines(), 4);
        let dot = text.find("z.").expect("in the text") + 2;
        let at = index.position(text, dot);
        assert_eq!(at, LineCol { line: 1, col: 12 });
        assert_eq!(index.offset(text, at), Ok(dot));
        assert_eq!(index.offset(text, LineCol { line: 3, col: 1 }), Ok(text.find('c').expect("c")));
    }

    #[test]
    fn a_position_outside_names_what_exists() {
        let index = LineIndex::new("ab\n");
        assert_eq!(
            index.offset("ab\n", LineCol { line: 1, col: 9 }),
            Err(PositionError::NoSuchColumn { line: 1, col: 9, col_max: 3 })
        );
        assert!(index.offset("ab\n", LineCol { line: 7, col: 1 }).is_err());
        assert!(index.offset("ab\n", LineCol { line: 0, col: 1 }).is_err());
    }
}
