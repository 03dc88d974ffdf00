//! Flink's scalar functions: those of DataFusion that behave as Flink's do, and our own where they differ; and its aggregates
//! that are made of the values themselves.
//!
//! Apart from `laxity-sql`, as they are called for each row: that crate plans, and is compiled to be small. Functions that are only
//! spelled differently are renamed there (`rewrite.rs`) and do not appear here.

mod array;
mod bounded;
mod cast;
mod collection;
pub mod data_type;
mod decimal;
pub mod decimal_type;
mod digits;
mod encoding;
mod gathered;
mod java_time;
mod json;
mod map;
mod math;
mod number;
mod pattern;
mod row_field;
mod text;
mod time;

use std::collections::BTreeMap;
use std::hash::{Hash, Hasher};
use std::sync::{Arc, LazyLock};

use arrow::array::ArrayRef;
use arrow::datatypes::{DataType, TimeUnit};
use datafusion_common::{Result, ScalarValue, exec_err, plan_err};
use datafusion_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility};

pub use cast::{casts_number, check_cast, flink_cast, is_cast_to_number};
pub use collection::{ARRAY, ITEM, MAP, map_type};
pub use decimal::{DECIMAL_ADD, DECIMAL_DIVIDE, DECIMAL_MULTIPLY, DECIMAL_SUBTRACT};
pub use gathered::{FIRST_OVER, LAST_OVER, gathered};
pub(crate) use java_time::JavaPattern;
pub use json::{JSON_ARRAY, JSON_OBJECT, json_shape};
pub use text::{TO_CHAR, TO_STRING, TO_VARCHAR};
pub use time::UNITS;

/// All scalar functions by lower-case name.
pub fn all() -> &'static BTreeMap<String, Arc<ScalarUDF>> {
    static ALL: LazyLock<BTreeMap<String, Arc<ScalarUDF>>> = LazyLock::new(|| {
        let mut all = BTreeMap::new();
        for function in of_datafusion() {
            for alias in function.aliases() {
                all.insert(alias.clone(), Arc::clone(&function));
            }
            all.insert(function.name().to_string(), function);
        }
        let own = [
            text::FUNCTIONS,
            pattern::FUNCTIONS,
            json::FUNCTIONS,
            time::FUNCTIONS,
            number::FUNCTIONS,
            math::FUNCTIONS,
            encoding::FUNCTIONS,
            decimal::FUNCTIONS,
            collection::FUNCTIONS,
            array::FUNCTIONS,
            map::FUNCTIONS,
        ];
        for function in own.into_iter().flatten() {
            all.insert(function.name.to_string(), Arc::new(ScalarUDF::from(function.clone())));
        }
        for function in number::rounding() {
            all.insert(function.name().to_string(), Arc::new(function));
        }
        bounded::bound(&mut all);
        all
    });
    &ALL
}

/// Those that a file can name, or that stand for what it says (`rewrite.rs` of `laxity-sql`, TRIM): each of the others would bring its
/// kernels for all types into the program.
fn of_datafusion() -> Vec<Arc<ScalarUDF>> {
    use datafusion_functions::{core, crypto, encoding, math, string, unicode};
    vec![
        core::coalesce(),
        row_field::get_field(),
        core::greatest(),
        core::least(),
        core::named_struct(),
        crypto::md5(),
        crypto::sha224(),
        crypto::sha256(),
        crypto::sha384(),
        crypto::sha512(),
        encoding::encode(),
        math::pi(),
        math::random(),
        string::btrim(),
        string::concat_ws(),
        string::lower(),
        string::ltrim(),
        string::repeat(),
        string::rtrim(),
        string::upper(),
        unicode::character_length(),
        unicode::reverse(),
        unicode::strpos(),
    ]
}

/// Whether users may call it by this lower-case name. DataFusion's functions that Flink does not have, or has
/// with another meaning, are not for them: a file must mean the same in both.
pub fn is_public(name: &str) -> bool {
    PUBLIC.contains(&name)
}

/// All names that [`is_public`] accepts.
pub fn public_names() -> impl Iterator<Item = &'static str> {
    PUBLIC.iter().copied()
}

/// A column of the table below, in place of which it stands until the query is planned: `proctime.rs` of `laxity-sql`.
pub const PROCTIME: &str = "flink_proctime";

/// The watermark where a row is, NULL before there is one.
pub const CURRENT_WATERMARK: &str = "current_watermark";

const PUBLIC: &[&str] = &[
    "abs",
    "acos",
    "array_append",
    "array_concat",
    "array_contains",
    "array_distinct",
    "array_except",
    "array_intersect",
    "array_join",
    "array_max",
    "array_min",
    "array_position",
    "array_prepend",
    "array_remove",
    "array_reverse",
    "array_slice",
    "array_sort",
    "array_union",
    "ascii",
    "asin",
    "atan",
    "atan2",
    "bin",
    "btrim",
    "cardinality",
    "ceil",
    "char_length",
    "character_length",
    "chr",
    "coalesce",
    "concat_ws",
    "cos",
    "cosh",
    "cot",
    CURRENT_WATERMARK,
    "date_format",
    "degrees",
    "element",
    "elt",
    "endswith",
    "exp",
    "floor",
    "from_base64",
    "from_unixtime",
    "hex",
    "initcap",
    "json_exists",
    "json_query",
    "json_quote",
    "json_string",
    "json_unquote",
    "json_value",
    "left",
    "ln",
    "log",
    "log10",
    "log2",
    "lower",
    "lpad",
    "ltrim",
    "map_entries",
    "map_from_arrays",
    "map_keys",
    "map_union",
    "map_values",
    "md5",
    "overlay",
    "pi",
    "position",
    "power",
    "radians",
    "random",
    "regexp_count",
    "regexp_extract",
    "regexp_extract_all",
    "regexp_instr",
    "regexp_substr",
    "repeat",
    "replace",
    "reverse",
    "right",
    "round",
    "rpad",
    "rtrim",
    "sha1",
    "sin",
    "sinh",
    "split",
    "split_index",
    "sqrt",
    "startswith",
    "str_to_map",
    "tan",
    "tanh",
    "timestampadd",
    "timestampdiff",
    "to_date",
    "to_timestamp",
    "to_timestamp_ltz",
    "translate",
    "trim",
    "unhex",
    "upper",
    "url_decode",
    "url_encode",
];

/// One of our own functions.
///
/// # Panics
/// If there is none of that name: a mistake of ours.
pub fn own(name: &str) -> Arc<ScalarUDF> {
    Arc::clone(all().get(name).unwrap_or_else(|| panic!("function {name} is not defined")))
}

/// What an argument is brought to before the call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Parameter {
    Text,
    Int,
    Long,
    Double,
    /// Any number, as it is.
    Number,
    /// A text, or a number as a BIGINT.
    TextOrLong,
    /// A text or a time, as it is.
    TextOrTime,
    /// A timestamp of any precision, a date or a time; what else there is becomes `TIMESTAMP(3)`.
    Time,
    Any,
}

type Invoke = fn(&[ArrayRef], usize) -> Result<ArrayRef>;

/// A function as a table entry.
#[derive(Debug, Clone)]
pub(crate) struct FlinkFunction {
    pub name: &'static str,
    /// The last is repeated for further arguments up to `most`.
    pub parameters: &'static [Parameter],
    pub least: usize,
    pub most: usize,
    pub returns: fn(&[DataType]) -> DataType,
    /// Gets arrays of equal length, and that length.
    pub invoke: Invoke,
    pub signature: fn() -> Signature,
}

pub(crate) fn pure() -> Signature {
    Signature::user_defined(Volatility::Immutable)
}

pub(crate) fn volatile() -> Signature {
    Signature::user_defined(Volatility::Volatile)
}

pub(crate) const TIMESTAMP_3: DataType = DataType::Timestamp(TimeUnit::Millisecond, None);

impl PartialEq for FlinkFunction {
    fn eq(&self, other: &FlinkFunction) -> bool {
        self.name == other.name
    }
}

impl Eq for FlinkFunction {}

impl Hash for FlinkFunction {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}

/// The function with its signature kept, as the trait lends it out.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Callable {
    function: FlinkFunction,
    signature: Signature,
}

impl FlinkFunction {
    fn usage(&self) -> String {
        match (self.least, self.most) {
            (least, most) if least == most => format!("{least} arguments"),
            (least, usize::MAX) => format!("{least} or more arguments"),
            (least, most) => format!("{least} to {most} arguments"),
        }
    }
}

impl From<FlinkFunction> for ScalarUDF {
    fn from(function: FlinkFunction) -> ScalarUDF {
        let signature = (function.signature)();
        ScalarUDF::new_from_impl(Callable { function, signature })
    }
}

/// The type of a numeric argument: its own. A literal NULL is a DOUBLE.
fn number_type(function: &str, given: &DataType) -> Result<DataType> {
    match given {
        DataType::Null => Ok(DataType::Float64),
        // Counts that DataFusion gives without a sign.
        DataType::UInt64 | DataType::UInt32 => Ok(DataType::Int64),
        _ if given.is_signed_integer()
            || given.is_floating()
            || matches!(given, DataType::Decimal128(..)) =>
        {
            Ok(given.clone())
        }
        _ => plan_err!("{function} takes a number, not {}", crate::data_type::display(given)),
    }
}

impl ScalarUDFImpl for Callable {
    fn name(&self) -> &str {
        self.function.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, given: &[DataType]) -> Result<Vec<DataType>> {
        let function = &self.function;
        if given.len() < function.least || given.len() > function.most {
            return plan_err!(
                "{} takes {}, not {}",
                function.name.to_uppercase(),
                function.usage(),
                given.len()
            );
        }
        let parameter = |index: usize| {
            function.parameters.get(index).or(function.parameters.last()).copied().unwrap_or(Parameter::Any)
        };
        let coerced = given.iter().enumerate().map(|(index, given)| {
            Ok(match (parameter(index), given) {
                (Parameter::Text, _) => DataType::Utf8,
                (Parameter::Int, _) => DataType::Int32,
                (Parameter::Long, _) => DataType::Int64,
                (Parameter::Double, _) => DataType::Float64,
                (Parameter::Number, _) => number_type(&function.name.to_uppercase(), given)?,
                (Parameter::TextOrLong, given) if given.is_integer() => DataType::Int64,
                (Parameter::TextOrLong, _) => DataType::Utf8,
                (Parameter::TextOrTime, DataType::Utf8 | DataType::Null) => DataType::Utf8,
                (
                    Parameter::Time | Parameter::TextOrTime,
                    DataType::Timestamp(..) | DataType::Date32 | DataType::Time32(_),
                ) => given.clone(),
                (Parameter::Any, DataType::Null) => DataType::Utf8,
                (Parameter::Any, _) => given.clone(),
                (Parameter::Time | Parameter::TextOrTime, _) => TIMESTAMP_3,
            })
        });
        coerced.collect()
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        Ok((self.function.returns)(arguments))
    }

    fn invoke_with_args(&self, call: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let constant = call.args.iter().all(|arg| matches!(arg, ColumnarValue::Scalar(_)))
            && self.signature.volatility == Volatility::Immutable;
        let rows = if constant { 1 } else { call.number_rows };
        let arrays = call.args.into_iter().map(|arg| arg.into_array(rows)).collect::<Result<Vec<_>>>()?;
        let result = (self.function.invoke)(&arrays, rows)?;
        if result.len() != rows {
            return exec_err!("{} gave {} rows for {rows}", self.function.name, result.len());
        }
        if constant {
            return Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&result, 0)?));
        }
        Ok(ColumnarValue::Array(result))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_file_may_name_is_there() {
        let missing: Vec<&str> = public_names().filter(|name| !all().contains_key(*name)).collect();
        assert_eq!(missing, [""; 0]);
    }
}
