use std::path::PathBuf;

/// Checks a file of cases, each `SQL`, a line `----`, the answer, and a line `====`.
pub fn check(file: &str, answer: impl Fn(&str) -> String) {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/sql").join(file);
    let text = std::fs::read_to_string(&path).unwrap();
    let mut updated = String::new();
    let mut wrong = Vec::new();
    for case in text.split("====\n").filter(|case| !case.trim().is_empty()) {
        let (sql, expected) = case.split_once("----\n").unwrap_or((case, ""));
        let actual = answer(sql);
        if actual.trim_end() != expected.trim_end() {
            wrong.push(format!("{sql}--- expected\n{expected}--- got\n{actual}"));
        }
        updated.push_str(&format!("{sql}----\n{}\n====\n", actual.trim_end()));
    }
    if std::env::var_os("LAXITY_UPDATE_GOLDEN").is_some() {
        std::fs::write(&path, updated).unwrap();
    } else {
        assert!(wrong.is_empty(), "{} cases of {file} differ:\n{}", wrong.len(), wrong.join("\n"));
    }
}
