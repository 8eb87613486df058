//! Compiles `kernels/` and writes down what is in it: names, block sizes and layouts from `manifest.toml`, one fat
//! binary for each file where nvcc is found, and with the feature `emu` the same files for the host.
//!
//! `TETHER_KERNELS`: `auto` (default: nvcc when it is there), `nvcc` (an error when it is not), `nvrtc` (never).
//! `TETHER_CUDA_ARCHS`: `default` or `all`. What nvcc made is kept in `.cache/kernels` under the hash of the source,
//! the options and the compiler's version, so that an unchanged kernel is never compiled twice.
#![allow(clippy::print_stdout)] // how a build script talks to cargo

use std::collections::BTreeMap;
use std::error::Error;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use sha2::{Digest, Sha256};

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

fn main() -> Result<()> {
    let root = PathBuf::from(env::var("CARGO_MANIFEST_DIR")?);
    let out = PathBuf::from(env::var("OUT_DIR")?);
    for watched in ["kernels", "build.rs"] {
        println!("cargo::rerun-if-changed={watched}");
    }
    for name in ["TETHER_KERNELS", "TETHER_CUDA_ARCHS", "CUDA_HOME", "TETHER_EMU_FLAGS"] {
        println!("cargo::rerun-if-env-changed={name}");
    }
    let manifest = Manifest::read(&root.join("kernels/manifest.toml"))?;
    let modules = manifest.modules(&root)?;
    let images = compile(&root, &out, &modules)?;
    fs::write(out.join("kernels.rs"), manifest.rust(&modules, &images))?;
    fs::write(out.join("layout.rs"), manifest.rust_layout())?;
    if env::var_os("CARGO_FEATURE_EMU").is_some() {
        emulate(&root, &out, &manifest)?;
    }
    Ok(())
}

/// One entry point.
struct Kernel {
    name: String,
    op: String,
    file: String,
    /// `<Bf16, 1, 1>`, or nothing.
    types: String,
    params: String,
    block: i64,
    blocks_per_sm: i64,
    hot: bool,
}

struct Manifest {
    axes: BTreeMap<String, Vec<(String, String)>>,
    kernels: Vec<Kernel>,
    /// For the emulator only, numbered after the others.
    faults: Vec<Kernel>,
    layouts: Vec<Layout>,
}

/// A parameter struct: its size, and its fields with their offsets.
struct Layout {
    name: String,
    size: i64,
    offsets: Vec<(String, i64)>,
}

impl Manifest {
    fn read(path: &Path) -> Result<Self> {
        let table: toml::Table = fs::read_to_string(path)?.parse()?;
        let mut axes = BTreeMap::new();
        for (name, axis) in section(&table, "axis")? {
            let values = strings(axis, "names")?.into_iter().zip(strings(axis, "types")?).collect();
            axes.insert(name.clone(), values);
        }
        let mut kernels = Vec::new();
        for entry in table.get("kernel").and_then(toml::Value::as_array).ok_or("no kernels")? {
            let op = string(entry, "op")?;
            let mut instances = vec![(op.clone(), Vec::new())];
            for axis in strings(entry, "axes").unwrap_or_default() {
                let values: &Vec<(String, String)> =
                    axes.get(&axis).ok_or_else(|| format!("{op}: no axis {axis}"))?;
                instances = instances
                    .iter()
                    .flat_map(|(name, types): &(String, Vec<String>)| {
                        values.iter().map(move |(value, ty)| {
                            (format!("{name}_{value}"), [types.clone(), vec![ty.clone()]].concat())
                        })
                    })
                    .collect();
            }
            for (name, types) in instances {
                let types = if types.is_empty() {
                    String::new()
                } else {
                    format!("<{}>", types.join(", "))
                };
                kernels.push(Kernel {
                    name,
                    file: string(entry, "file").unwrap_or_else(|_| op.clone()),
                    op: op.clone(),
                    types,
                    params: string(entry, "params")?,
                    block: integer(entry, "block")?,
                    blocks_per_sm: integer(entry, "blocks_per_sm").unwrap_or(1),
                    hot: entry.get("hot").and_then(toml::Value::as_bool).unwrap_or(false),
                });
            }
        }
        let entry = table.get("fault").ok_or("no [fault]")?;
        let fault = |op: String| {
            Ok(Kernel {
                name: op.clone(),
                op,
                file: string(entry, "file")?,
                types: String::new(),
                params: string(entry, "params")?,
                block: integer(entry, "block")?,
                blocks_per_sm: 1,
                hot: false,
            })
        };
        let faults = strings(entry, "ops")?.into_iter().map(fault).collect::<Result<_>>()?;
        let mut layouts = Vec::new();
        for (name, layout) in section(&table, "layout")? {
            let offsets =
                layout.get("offsets").and_then(toml::Value::as_table).ok_or("no offsets")?;
            let offsets = offsets
                .iter()
                .map(|(field, at)| Ok((field.clone(), at.as_integer().ok_or("not a number")?)))
                .collect::<Result<_>>()?;
            layouts.push(Layout { name: name.clone(), size: integer(layout, "size")?, offsets });
        }
        Ok(Self { axes, kernels, faults, layouts })
    }

    /// The text of every file with what it includes, its layout checks and its entry points.
    fn modules(&self, root: &Path) -> Result<Vec<Module>> {
        let mut modules: Vec<Module> = Vec::new();
        for kernel in &self.kernels {
            if modules.iter().any(|m| m.name == kernel.file) {
                continue;
            }
            let mut text = String::new();
            include(root, &format!("{}.cuh", kernel.file), &mut Vec::new(), &mut text)?;
            text.push_str(&self.cpp_layout(&text));
            for k in self.kernels.iter().filter(|k| k.file == kernel.file) {
                writeln!(
                    text,
                    "extern \"C\" __global__ void __launch_bounds__({}, {}) tether_{}(const __grid_constant__ {} p) {{ {}{}(p); }}",
                    k.block, k.blocks_per_sm, k.name, k.params, k.op, k.types
                )?;
            }
            modules.push(Module { name: kernel.file.clone(), text });
        }
        Ok(modules)
    }

    /// Checks of the structs that `text` declares.
    fn cpp_layout(&self, text: &str) -> String {
        let mut checks = String::new();
        for Layout { name, size, offsets } in &self.layouts {
            if !text.contains(&format!("struct {name} {{")) {
                continue;
            }
            let mut line = |text: String| checks.push_str(&(text + "\n"));
            line(format!("static_assert(sizeof({name}) == {size}, \"size of {name}\");"));
            // NVRTC has no offsetof; sources that reach it went past both other compilers.
            line("#ifndef __CUDACC_RTC__".to_owned());
            for (field, at) in offsets {
                line(format!(
                    "static_assert(__builtin_offsetof({name}, {field}) == {at}, \"layout of {name}\");"
                ));
            }
            line("#endif".to_owned());
        }
        checks
    }

    fn rust_layout(&self) -> String {
        let mut text = String::from("const _: () = {\n");
        for Layout { name, size, offsets } in &self.layouts {
            writeln!(text, "    assert!(size_of::<{name}>() == {size});").expect("a string");
            for (field, at) in offsets {
                writeln!(text, "    assert!(std::mem::offset_of!({name}, {field}) == {at});")
                    .expect("a string");
            }
        }
        text + "};\n"
    }

    fn rust(&self, modules: &[Module], images: &[Image]) -> String {
        let mut text = String::new();
        let mut put = |line: String| {
            text.push_str(&line);
            text.push('\n');
        };
        // The host picks by number on the other axes, which follow from sizes.
        for (axis, values) in self.axes.iter().filter(|(axis, _)| *axis == "weight") {
            put(format!(
                "/// Values of the axis `{axis}` of the manifest.\n#[derive(Clone, Copy, Debug, PartialEq, Eq)]\npub(super) enum {}Axis {{",
                camel(axis)
            ));
            values.iter().for_each(|(name, _)| put(format!("    {},", camel(name))));
            put("}".to_owned());
        }
        put("/// A kernel's entry point.\n#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]\n#[repr(u32)]\npub(in crate::device) enum KernelId {".to_owned());
        self.kernels.iter().for_each(|k| put(format!("    {},", camel(&k.name))));
        put("}".to_owned());
        put("pub(in crate::device) const KERNELS: &[Kernel] = &[".to_owned());
        for k in &self.kernels {
            let module = modules.iter().position(|m| m.name == k.file).unwrap_or_default();
            put(format!(
                "    Kernel {{ id: KernelId::{}, name: \"{}\", entry: c\"tether_{}\", module: {module}, n_threads: {}, is_hot: {} }},",
                camel(&k.name),
                k.name,
                k.name,
                k.block,
                k.hot
            ));
        }
        put("];".to_owned());
        let mut ops: Vec<&str> = self.kernels.iter().map(|k| k.op.as_str()).collect();
        ops.dedup();
        for op in ops {
            let of_op: Vec<String> = self
                .kernels
                .iter()
                .filter(|k| k.op == op)
                .map(|k| format!("KernelId::{}", camel(&k.name)))
                .collect();
            let name = op.to_uppercase();
            match of_op.as_slice() {
                [one] => put(format!("pub(super) const {name}: KernelId = {one};")),
                many => put(format!(
                    "/// In the order of its axes, the last one fastest.\npub(super) const {name}: [KernelId; {}] = [{}];",
                    many.len(),
                    many.join(", ")
                )),
            }
        }
        put("pub(super) const MODULES: &[Module] = &[".to_owned());
        for (module, image) in modules.iter().zip(images) {
            let bytes = |path: &Option<PathBuf>| {
                path.as_ref()
                    .map_or("None".to_owned(), |path| format!("Some(include_bytes!({path:?}))"))
            };
            put(format!(
                "    Module {{ name: {:?}, source: include_str!({:?}), source_hash: {:?}, image: {} }},",
                module.name,
                image.source,
                image.hash,
                bytes(&image.binary)
            ));
        }
        put("];".to_owned());
        put("/// Kernels that are wrong on purpose, by name and by the emulator's number."
            .to_owned());
        let faults: Vec<String> = (self.kernels.len()..)
            .zip(&self.faults)
            .map(|(id, fault)| format!("({:?}, {id})", fault.name))
            .collect();
        put(format!(
            "#[cfg(all(test, feature = \"emu\"))]\npub(in crate::device) const FAULTS: &[(&str, u32)] = &[{}];",
            faults.join(", ")
        ));
        put("/// What the compiler said of registers, stack and spills; empty where there was no nvcc.".to_owned());
        let reports: Vec<String> = images
            .iter()
            .filter_map(|i| i.report.as_ref())
            .map(|p| format!("include_str!({p:?})"))
            .collect();
        put(format!(
            "#[cfg(test)]\npub(super) const REPORTS: &[&str] = &[{}];",
            reports.join(", ")
        ));
        put(format!(
            "pub(super) const COMPILER: &str = {:?};",
            images.first().map_or("", |i| i.compiler.as_str())
        ));
        text
    }
}

struct Module {
    name: String,
    text: String,
}

/// What became of a module.
struct Image {
    source: PathBuf,
    hash: String,
    binary: Option<PathBuf>,
    report: Option<PathBuf>,
    compiler: String,
}

/// Append `kernels/<name>` with its includes in place, each file once: NVRTC then needs no files.
fn include(root: &Path, name: &str, seen: &mut Vec<String>, text: &mut String) -> Result<()> {
    if seen.iter().any(|s| s == name) {
        return Ok(());
    }
    seen.push(name.to_owned());
    let path = root.join("kernels").join(name);
    let source = fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))?;
    let mut own = String::new();
    for line in source.lines() {
        match line.strip_prefix("#include \"").and_then(|rest| rest.strip_suffix('"')) {
            Some(other) if other.starts_with("emu/") => {
                own.push_str("#error \"not for the host\"\n")
            }
            Some(other) => include(root, other, seen, text)?,
            None if line.starts_with("#pragma once") => {}
            None => {
                own.push_str(line);
                own.push('\n');
            }
        }
    }
    writeln!(text, "// ==== {name}")?;
    text.push_str(&own);
    Ok(())
}

fn compile(root: &Path, out: &Path, modules: &[Module]) -> Result<Vec<Image>> {
    let wanted = env::var("TETHER_KERNELS").unwrap_or_else(|_| "auto".to_owned());
    let nvcc = if wanted == "nvrtc" { None } else { find_nvcc(root) };
    if wanted == "nvcc" && nvcc.is_none() {
        return Err(
            "TETHER_KERNELS=nvcc, and no nvcc in PATH, CUDA_HOME or .venv (make .venv/.stamp)"
                .into(),
        );
    }
    let version = match &nvcc {
        Some(nvcc) => String::from_utf8(Command::new(nvcc).arg("--version").output()?.stdout)?,
        None => String::new(),
    };
    let compiler = version.lines().find(|l| l.contains("release")).unwrap_or_default().to_owned();
    let cache = root.join(".cache/kernels");
    let cache = if fs::create_dir_all(&cache).is_ok() { cache } else { out.to_owned() };
    let next = std::sync::atomic::AtomicUsize::new(0);
    let results = std::sync::Mutex::new(BTreeMap::new());
    // Two compilers at once: more would hold several hundred megabytes each for little gain.
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                loop {
                    let i = next.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                    let Some(module) = modules.get(i) else { return };
                    let image =
                        compile_one(out, &cache, module, nvcc.as_deref(), &version, &compiler);
                    results.lock().expect("no thread panics here").insert(i, image);
                }
            });
        }
    });
    results.into_inner()?.into_values().collect()
}

fn compile_one(
    out: &Path,
    cache: &Path,
    module: &Module,
    nvcc: Option<&Path>,
    version: &str,
    compiler: &str,
) -> Result<Image> {
    let source = out.join(format!("{}.cu", module.name));
    fs::write(&source, &module.text)?;
    let archs = env::var("TETHER_CUDA_ARCHS").unwrap_or_else(|_| "default".to_owned());
    let mut options: Vec<String> =
        ["-std=c++17", "--fmad=false", "-fatbin", "-Xptxas", "-v"].map(str::to_owned).to_vec();
    let mut targets = vec![("80", "sm_80"), ("80", "compute_80"), ("90a", "sm_90a")];
    match archs.as_str() {
        "default" => {}
        "all" => {
            targets.extend([("86", "sm_86"), ("89", "sm_89"), ("100", "sm_100"), ("120", "sm_120")])
        }
        other => {
            return Err(format!("TETHER_CUDA_ARCHS is `default` or `all`, not `{other}`").into());
        }
    }
    options.extend(
        targets.iter().map(|(arch, code)| format!("-gencode=arch=compute_{arch},code={code}")),
    );
    let hash = hex(&Sha256::digest(format!("{}\n{}\n{version}", module.text, options.join(" "))));
    let mut image = Image {
        source: source.clone(),
        hash: hash.clone(),
        binary: None,
        report: None,
        compiler: compiler.to_owned(),
    };
    let Some(nvcc) = nvcc else {
        return Ok(image);
    };
    let (binary, report) =
        (cache.join(format!("{hash}.fatbin")), cache.join(format!("{hash}.txt")));
    if !binary.exists() || !report.exists() {
        let new = cache.join(format!("{hash}.{}.new", std::process::id()));
        let done = Command::new(nvcc).args(&options).arg("-o").arg(&new).arg(&source).output()?;
        let said = String::from_utf8_lossy(&done.stderr).into_owned();
        if !done.status.success() {
            return Err(format!("nvcc cannot compile {}:\n{said}", source.display()).into());
        }
        fs::write(&report, said)?;
        fs::rename(&new, &binary)?;
    }
    // Copies, so that what the crate includes does not vanish when the cache is cleared.
    image.binary = Some(out.join(format!("{}.fatbin", module.name)));
    image.report = Some(out.join(format!("{}.txt", module.name)));
    for (from, to) in [(&binary, &image.binary), (&report, &image.report)] {
        fs::copy(from, to.as_ref().ok_or("just set")?)?;
    }
    Ok(image)
}

fn find_nvcc(root: &Path) -> Option<PathBuf> {
    let mut places: Vec<PathBuf> =
        env::var_os("CUDA_HOME").map(|home| PathBuf::from(home).join("bin")).into_iter().collect();
    places.extend(env::split_paths(&env::var_os("PATH").unwrap_or_default()));
    if let Ok(versions) = fs::read_dir(root.join(".venv/lib")) {
        places.extend(
            versions.filter_map(|v| Some(v.ok()?.path().join("site-packages/nvidia/cu13/bin"))),
        );
    }
    places.into_iter().map(|p| p.join("nvcc")).find(|p| p.is_file())
}

/// The kernels as functions of the host, and the machine that runs them.
fn emulate(root: &Path, out: &Path, manifest: &Manifest) -> Result<()> {
    let mut text = String::from("#include \"emu/emu.hpp\"\n");
    let kernels = || manifest.kernels.iter().chain(&manifest.faults);
    let mut files: Vec<&str> = kernels().map(|k| k.file.as_str()).collect();
    files.dedup();
    let mut declared = String::new();
    for file in files {
        writeln!(text, "#include \"{file}.cuh\"")?;
        include(root, &format!("{file}.cuh"), &mut Vec::new(), &mut declared)?;
    }
    text.push_str(&manifest.cpp_layout(&declared));
    for k in kernels() {
        writeln!(
            text,
            "static void run_{}(const void* p) {{ {}{}(*static_cast<const {}*>(p)); }}",
            k.name, k.op, k.types, k.params
        )?;
    }
    text.push_str("const EmuKernel EMU_KERNELS[] = {\n");
    for k in kernels() {
        writeln!(
            text,
            "    {{\"{}\", run_{}, sizeof({}), {}}},",
            k.name, k.name, k.params, k.block
        )?;
    }
    writeln!(text, "}};\nconst uint32_t N_EMU_KERNELS = {};", kernels().count())?;
    let table = out.join("emu_kernels.cpp");
    fs::write(&table, text)?;
    let mut build = cc::Build::new();
    build.cpp(true).std("c++20").include(root.join("kernels")).define("TETHER_EMU", None);
    // As the GPU compiler is told: a product and a sum are rounded apart unless the source says `fma`.
    build.flag("-ffp-contract=off").opt_level(2).debug(false).warnings(true);
    build.flag_if_supported("-Wno-unknown-pragmas"); // `#pragma unroll` is for the GPU compiler
    for flag in env::var("TETHER_EMU_FLAGS").unwrap_or_default().split_whitespace() {
        build.flag(flag);
        if flag.starts_with("-fsanitize=") {
            // Not an argument of the linker's: unit tests of a library are linked without those.
            println!("cargo::rustc-link-lib={}", sanitizer(flag)?);
        }
    }
    build.file(root.join("kernels/emu/emu.cpp")).file(&table);
    build.try_compile("tether_emu")?;
    Ok(())
}

/// The library that a sanitiser's code calls.
fn sanitizer(flag: &str) -> Result<&'static str> {
    match flag {
        "-fsanitize=address" => Ok("asan"),
        "-fsanitize=undefined" => Ok("ubsan"),
        _ => Err(format!("TETHER_EMU_FLAGS: {flag} is not one of address, undefined").into()),
    }
}

fn section<'a>(table: &'a toml::Table, name: &str) -> Result<&'a toml::Table> {
    let found = table.get(name).and_then(toml::Value::as_table);
    found.ok_or_else(|| format!("manifest.toml has no [{name}]").into())
}

fn string(entry: &toml::Value, key: &str) -> Result<String> {
    let found = entry.get(key).and_then(toml::Value::as_str).map(str::to_owned);
    found.ok_or_else(|| format!("`{key}` is missing").into())
}

fn strings(entry: &toml::Value, key: &str) -> Result<Vec<String>> {
    let found = entry.get(key).and_then(toml::Value::as_array);
    let list = found.ok_or_else(|| format!("`{key}` is missing"))?;
    Ok(list.iter().filter_map(|v| v.as_str().map(str::to_owned)).collect())
}

fn integer(entry: &toml::Value, key: &str) -> Result<i64> {
    let found = entry.get(key).and_then(toml::Value::as_integer);
    found.ok_or_else(|| format!("`{key}` is missing").into())
}

/// `matvec_q4_k` as `MatvecQ4K`.
fn camel(name: &str) -> String {
    name.split('_').map(|part| part[..1].to_uppercase() + &part[1..]).collect()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |text, byte| text + &format!("{byte:02x}"))
}
