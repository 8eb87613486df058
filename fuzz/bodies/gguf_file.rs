//! Any bytes as a GGUF file: an error, or a file whose every part can be read.

use std::path::Path;

use tether::format::{FileMap, GgufFile, Tensors};

/// Returns whether the bytes were taken for a file.
pub fn run(data: &[u8]) -> bool {
    let map = FileMap::from_vec(data.to_vec());
    let file = match GgufFile::from_map(Path::new("fuzz.gguf"), map) {
        Ok(file) => file,
        Err(error) => {
            assert!(!error.to_string().is_empty());
            return false;
        }
    };
    for key in file.metadata().keys() {
        assert!(file.metadata().get(key).is_some(), "{key} is listed");
        let _ = file.metadata().to_value(key);
    }
    for name in file.names() {
        let tensor = file.tensor(name).expect("a listed name is there");
        let n_elems = tensor.shape.iter().map(|&n| n as u64).product();
        let n_bytes = tensor.dtype.bytes_for(n_elems).expect("whole blocks");
        assert_eq!(tensor.data.len() as u64, n_bytes, "{name}");
        // Reads the last byte: a range past the mapping would fault here.
        std::hint::black_box(tensor.data.last());
    }
    true
}
