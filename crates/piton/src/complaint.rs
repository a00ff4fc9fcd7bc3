//! How an error is told: once.

/// The error and its causes on one line; a cause that the text before it already tells is left out.
///
/// ```
/// use anyhow::Context;
///
/// let missing = std::io::Error::from(std::io::ErrorKind::NotFound);
/// let told = anyhow::Error::new(missing).context("cannot read a.toml: entity not found; write another path");
/// assert_eq!(piton::complaint(&told), "error: cannot read a.toml: entity not found; write another path");
///
/// let untold = std::io::Error::from(std::io::ErrorKind::NotFound);
/// let untold = anyhow::Error::new(untold).context("cannot read a.toml");
/// assert_eq!(piton::complaint(&untold), "error: cannot read a.toml: entity not found");
/// ```
pub fn complaint(error: &anyhow::Error) -> String {
    let mut text = "error".to_owned();
    for cause in error.chain() {
        let cause = cause.to_string();
        let cause = cause.trim_end();
        if !text.contains(cause) {
            text.push_str(": ");
            text.push_str(cause);
        }
    }
    text
}
