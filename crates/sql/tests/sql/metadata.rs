//! METADATA columns of the `filesystem` connector, and those of PARTITIONED BY: keys and types are those of Flink's documentation.

use laxity_sql::{SqlFile, compile};

use crate::driver::run_cells;

#[test]
fn rows_say_which_file_they_are_from() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("in")).unwrap();
    std::fs::write(folder.path().join("in/a.csv"), "1\n2\n").unwrap();
    std::fs::write(folder.path().join("in/b.csv"), "3\n").unwrap();
    let text = "CREATE TABLE t (
           name STRING NOT NULL METADATA FROM 'file.name' COMMENT 'its last part', v INT, twice AS v * 2,
           `file.size` BIGINT NOT NULL METADATA VIRTUAL, label AS UPPER(name),
           `at` TIMESTAMP_LTZ(3) NOT NULL METADATA FROM 'file.modification-time' VIRTUAL
         ) WITH ('connector' = 'filesystem', 'path' = 'in', 'format' = 'csv');
         SELECT v, twice, name, label, `file.size`, `at` > TIMESTAMP '2020-01-01 00:00:00' FROM t;";
    let file = SqlFile { path: folder.path().join("q.sql"), text: text.into() };
    let script = compile(&[file]).unwrap_or_else(|error| panic!("{error}"));
    let rows = run_cells(&script.queries[0]).into_iter();
    let rows: Vec<String> = rows.map(|row| row.into_iter().flatten().collect::<Vec<_>>().join(",")).collect();
    assert_eq!(rows, ["1,2,a.csv,A.CSV,4,true", "2,4,a.csv,A.CSV,4,true", "3,6,b.csv,B.CSV,2,true"]);
}

/// Folders are named as in Flink's documentation (FileSystem, "Partition Files"); the columns are in no file.
#[test]
fn columns_that_name_folders_are_read_from_them() {
    let folder = tempfile::tempdir().unwrap();
    for (path, text) in [("day=2024-03-01/k=a%2Fb", "1\n"), ("day=2024-03-02/k=__DEFAULT_PARTITION__", "2\n")]
    {
        let path = folder.path().join("in").join(path);
        std::fs::create_dir_all(&path).unwrap();
        std::fs::write(path.join("part-0.csv"), text).unwrap();
    }
    let text = "CREATE TABLE t (k STRING, v INT, `day` DATE) PARTITIONED BY (`day`, k)
         WITH ('connector' = 'filesystem', 'path' = 'in', 'format' = 'csv');
         SELECT v, k, EXTRACT(DAY FROM `day`) FROM t;";
    let file = SqlFile { path: folder.path().join("q.sql"), text: text.into() };
    let script = compile(&[file]).unwrap_or_else(|error| panic!("{error}"));
    let text = |text: &str| Some(text.to_string());
    let rows = [[text("1"), text("a/b"), text("1")], [text("2"), None, text("2")]];
    assert_eq!(run_cells(&script.queries[0]), rows);
}

#[test]
fn what_is_virtual_is_not_written() {
    let text = "CREATE TABLE t (a INT, n STRING METADATA FROM 'file.name' VIRTUAL, b INT)
         WITH ('connector' = 'filesystem', 'path' = 'out', 'format' = 'csv');
         INSERT INTO t VALUES (1, 2);";
    let file = SqlFile { path: "q.sql".into(), text: text.into() };
    let script = compile(&[file]).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(script.queries[0].paths[0].place, "q.sql:2:53");
    assert_eq!(run_cells(&script.queries[0]), [[Some("1".to_string()), Some("2".to_string())]]);
}
