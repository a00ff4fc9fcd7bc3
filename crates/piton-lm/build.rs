//! Gives tests, examples and benches the folder of libtorch as a run path, so that they run from any shell.
//! See the build script of piton-torch, which finds it.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    if let Ok(lib) = std::env::var("DEP_PITON_TORCH_LIBTORCH_LIB") {
        println!("cargo::rustc-link-arg=-Wl,-rpath,{lib}");
    }
}
