//! Writes a workload for the engine into a folder: `write_script NAME FOLDER [ROWS_PER_S [SECONDS [SEED [SPEED]]]]`.
//! Then `laxity run FOLDER/NAME.sql`. Without arguments it lists the names. A speed of 0 is as fast as can be read. What
//! must come out, where that is known, goes to `FOLDER/expected/`, in any order.

use std::fs::{self, File};
use std::io::{BufWriter, Error, Write};
use std::path::Path;

use laxity_workload::script::{self, Pace};

fn main() -> Result<(), Error> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [name, folder, rest @ ..] = arguments.as_slice() else {
        for named in script::all() {
            println!("{:16} {}", named.name, named.about);
        }
        return Ok(());
    };
    let number = |index: usize, default: f64| match rest.get(index) {
        Some(text) => text.parse::<f64>().map_err(|_| Error::other(format!("{text:?} is not a number"))),
        None => Ok(default),
    };
    let speed = number(3, 1.0)?;
    let pace = Pace {
        rows_per_s: number(0, 1_000.0)?,
        seconds: number(1, 60.0)? as u32,
        replay: (speed > 0.0).then_some(speed),
        queries: 1,
    };
    let named = script::all().iter().find(|named| named.name == name).ok_or_else(|| {
        Error::other(format!("no script is called {name:?}; without arguments all are listed"))
    })?;
    let seed = number(2, 0.0)? as u64;
    let script = named.build(seed, pace).map_err(Error::other)?;
    let folder = Path::new(folder);
    fs::create_dir_all(folder.join("data"))?;
    fs::create_dir_all(folder.join("out"))?;
    fs::write(folder.join(format!("{name}.sql")), script.sql)?;
    for input in script.inputs {
        let mut file = BufWriter::new(File::create(folder.join(input.path))?);
        for line in input.lines {
            writeln!(file, "{line}")?;
        }
        file.flush()?;
    }
    for output in named.expected(seed, pace).map_err(Error::other)?.into_iter().flatten() {
        let path = folder.join(output.path.replace("out/", "expected/"));
        fs::create_dir_all(folder.join("expected"))?;
        fs::write(path, output.lines.join("\n") + "\n")?;
    }
    Ok(())
}
