//! Gives the binary the folder of libtorch as a run path, so that it runs from any shell.
//! See the build script of piton-torch, which finds it.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let Ok(lib) = std::env::var("DEP_PITON_TORCH_LIBTORCH_LIB") else { return };
    println!("cargo::rustc-link-arg=-Wl,-rpath,{lib}");
    // A CUDA build of libtorch registers its kernels when libtorch_cuda is loaded. No symbol of ours needs
    // that library, so the linker would drop it; libtorch.so is the one that names it.
    if std::path::Path::new(&lib).join("libtorch_cuda.so").exists() {
        println!("cargo::rustc-link-arg=-Wl,--push-state,--no-as-needed,-L{lib},-ltorch,--pop-state");
    }
}
