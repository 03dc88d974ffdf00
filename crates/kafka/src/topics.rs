use laxity_connect::{OptionError, OptionReader};
use regex::Regex;

/// Which topics a table is in.
#[derive(Clone, Debug)]
pub(crate) enum Topics {
    Named(Vec<String>),
    /// All whose whole name it fits.
    Pattern(Regex),
}

impl Topics {
    pub(crate) fn read(options: &OptionReader<'_>) -> Result<Topics, OptionError> {
        let pattern = options.text("topic-pattern");
        let Some(names) = options.text("topic") else {
            let what = "one topic, or several with ';' between them, or 'topic-pattern'";
            let pattern = pattern.ok_or_else(|| options.error("topic", format!("missing; give {what}")))?;
            let whole = Regex::new(&format!("^(?:{pattern})$"));
            let refused = |error: regex::Error| {
                // The last line says what; those before it draw where.
                let said = error.to_string().lines().last().unwrap_or_default().trim().to_owned();
                options.error("topic-pattern", format!("'{pattern}' is no pattern: {said}"))
            };
            return whole.map(Topics::Pattern).map_err(refused);
        };
        if pattern.is_some() {
            return Err(options.error("topic-pattern", "'topic' is given too; leave one of them out"));
        }
        let names: Vec<String> = names.split(';').map(|name| name.trim().to_owned()).collect();
        match names.iter().find(|name| !is_name(name)) {
            Some(name) => Err(options.error("topic", format!("'{name}' is no name of a topic"))),
            None => Ok(Topics::Named(names)),
        }
    }

    /// As an error says it.
    pub(crate) fn text(&self) -> String {
        match self {
            Topics::Named(names) if names.len() == 1 => format!("topic '{}'", names[0]),
            Topics::Named(names) => format!("topics '{}'", names.join("', '")),
            Topics::Pattern(pattern) => format!("topics like '{}'", pattern.as_str()),
        }
    }
}

/// Kafka's rule.
fn is_name(name: &str) -> bool {
    let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    !matches!(name, "" | "." | "..") && name.len() <= 249 && name.bytes().all(is_letter)
}
