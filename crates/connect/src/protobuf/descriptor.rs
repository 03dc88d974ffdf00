//! Which message it is: from a `.proto` file, compiled here, or a set of descriptors, by its own name or by that of the
//! class that Java has for it.

use std::fs;
use std::path::Path;

use prost_reflect::{DescriptorPool, FileDescriptor, MessageDescriptor};

use crate::OptionError;
use crate::options::OptionReader;
use crate::root::keep_within;

const MESSAGE: &str = "protobuf.message-class-name";
const DESCRIPTOR: &str = "protobuf.descriptor";

/// What the options name.
pub(super) fn find_message(options: &OptionReader<'_>) -> Result<MessageDescriptor, OptionError> {
    let name = options.required(MESSAGE, "the message: 'package.Message', or its class as Flink wants it")?;
    let given = options.required(
        DESCRIPTOR,
        "the .proto file of the message, or what 'protoc --include_imports --descriptor_set_out' makes of it",
    )?;
    let path = options.table().base.join(given);
    keep_within(options, DESCRIPTOR, &path)?;
    let pool =
        read_pool(&path).map_err(|why| options.error(DESCRIPTOR, format!("{}: {why}", path.display())))?;
    let found = pool.get_message_by_name(name);
    let found = found.or_else(|| pool.all_messages().find(|message| java_class(message) == name));
    found.ok_or_else(|| {
        let is_own = |message: &MessageDescriptor| {
            !message.is_map_entry() && message.parent_file().package_name() != "google.protobuf"
        };
        let own = pool.all_messages().filter(is_own).map(|message| format!("'{}'", message.full_name()));
        let mut names: Vec<String> = own.take(20).collect();
        names.sort();
        options.error(
            MESSAGE,
            format!("no message '{name}' in {}; there are {}", path.display(), names.join(", ")),
        )
    })
}

fn read_pool(path: &Path) -> Result<DescriptorPool, String> {
    let is_source = path.extension().is_some_and(|extension| extension == "proto");
    if !is_source {
        let bytes = fs::read(path).map_err(|error| error.to_string())?;
        return DescriptorPool::decode(bytes.as_slice())
            .map_err(|error| format!("neither a .proto file nor a set of descriptors: {error}"));
    }
    // Imports are looked for beside it.
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let compiled = protox::Compiler::new([folder]).and_then(|mut compiler| {
        compiler.include_imports(true).open_file(path)?;
        Ok(compiler.descriptor_pool())
    });
    compiled.map_err(|error| error.to_string())
}

/// The class that protoc makes of a message for Java.
fn java_class(message: &MessageDescriptor) -> String {
    let file = message.parent_file();
    let descriptor = file.file_descriptor_proto();
    let options = descriptor.options.as_ref();
    let package = options.and_then(|options| options.java_package.clone());
    let package = package.unwrap_or_else(|| file.package_name().to_owned());
    let many = options.is_some_and(|options| options.java_multiple_files.unwrap_or(false));
    let within_package = message.full_name().strip_prefix(file.package_name()).unwrap_or(message.full_name());
    let nested = within_package.trim_start_matches('.').replace('.', "$");
    let class = if many { nested } else { format!("{}${nested}", outer_class(&file)) };
    if package.is_empty() { class } else { format!("{package}.{class}") }
}

/// The class around those of a file's messages.
fn outer_class(file: &FileDescriptor) -> String {
    let descriptor = file.file_descriptor_proto();
    let named = descriptor.options.as_ref().and_then(|options| options.java_outer_classname.clone());
    if let Some(named) = named {
        return named;
    }
    let base = file.name().rsplit('/').next().unwrap_or_default().trim_end_matches(".proto");
    let mut class = String::new();
    let mut begins = true;
    for letter in base.chars() {
        match letter.is_ascii_alphanumeric() {
            true if begins => class.push(letter.to_ascii_uppercase()),
            true => class.push(letter),
            false => {}
        }
        begins = !letter.is_ascii_alphabetic();
    }
    let is_taken = file.messages().any(|message| message.name() == class)
        || file.enums().any(|of_file| of_file.name() == class)
        || file.services().any(|service| service.name() == class);
    if is_taken { class + "OuterClass" } else { class }
}
