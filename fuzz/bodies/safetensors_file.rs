//! Any bytes as a safetensors file: an error, or a file whose every tensor can be read.

use std::path::Path;

use tether::format::{FileMap, Safetensors, Tensors};

/// Returns whether the bytes were taken for a file.
pub fn run(data: &[u8]) -> bool {
    let map = FileMap::from_vec(data.to_vec());
    let file = match Safetensors::from_map(Path::new("fuzz.safetensors"), map) {
        Ok(file) => file,
        Err(error) => {
            assert!(!error.to_string().is_empty());
            return false;
        }
    };
    for name in file.names() {
        let tensor = file.tensor(name).expect("a listed name is there");
        let n_elems = tensor.shape.iter().map(|&n| n as u64).product();
        let n_bytes = tensor.dtype.bytes_for(n_elems).expect("whole blocks");
        assert_eq!(tensor.data.len() as u64, n_bytes, "{name}");
        std::hint::black_box(tensor.data.last());
    }
    true
}
