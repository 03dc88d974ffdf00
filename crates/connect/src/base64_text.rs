use base64::Engine;
use base64::engine::general_purpose::STANDARD;

/// BYTES as text: Base64, as Flink's formats have it. `None` if the text is none.
pub(crate) fn decode(text: &[u8]) -> Option<Vec<u8>> {
    STANDARD.decode(text).ok()
}

/// The text of BYTES.
pub(crate) fn encode(bytes: &[u8]) -> String {
    STANDARD.encode(bytes)
}
