//! Starts the process of a cell and waits for its figures.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};

use super::engine_run::EngineFigures;

/// Where the programs are, and room for their files, which is cleared at the end.
#[derive(Debug)]
pub struct Launcher {
    /// This program, to run an engine in another process.
    pub own: PathBuf,
    /// The `laxity` program.
    pub laxity: PathBuf,
    /// A folder that is there and may be filled.
    pub scratch: PathBuf,
}

/// One run of the engine.
#[derive(Clone, Debug)]
pub struct Launch<'a> {
    /// SQL.
    pub sql: &'a str,
    /// Who decides what runs next.
    pub policy: &'a str,
    /// How long it runs before that.
    pub warm_up: Duration,
    /// For how long.
    pub measured: Duration,
    /// No row ever comes from any table.
    pub is_silent: bool,
    /// There is a look every second, as `laxity run --plain` has it.
    pub is_watched: bool,
    /// Queries come and go meanwhile.
    pub is_changed: bool,
}

impl<'a> Launch<'a> {
    /// A run like that of `laxity run --plain`.
    pub fn new(sql: &'a str, policy: &'a str, measured: Duration) -> Launch<'a> {
        Launch {
            sql,
            policy,
            warm_up: Duration::ZERO,
            measured,
            is_silent: false,
            is_watched: true,
            is_changed: false,
        }
    }
}

/// A process that is killed when nobody needs it any more.
pub struct Killed(pub Child);

impl Drop for Killed {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starting, draining and writing may take so long beside the run itself before a process counts as hung.
const GRACE: Duration = Duration::from_secs(60);

impl Launcher {
    /// A launcher of this program, with a new folder below `scratch`.
    ///
    /// # Errors
    /// If the folder cannot be made.
    pub fn new(own: PathBuf, scratch: &Path) -> anyhow::Result<Launcher> {
        let laxity = own.parent().unwrap_or(Path::new(".")).join("laxity");
        let scratch = scratch.join(format!("density-{}", std::process::id()));
        fs::create_dir_all(&scratch).context("cannot make the scratch folder")?;
        Ok(Launcher { own, laxity, scratch })
    }

    /// Runs the engine in a process of its own.
    ///
    /// # Errors
    /// If the process cannot be started, fails, or hangs before it has figures to show.
    pub fn run(&self, launch: &Launch<'_>) -> anyhow::Result<EngineFigures> {
        self.run_within(launch, GRACE)
    }

    /// As [`run`](Launcher::run), where ending may hang: figures of a process that had to be killed count.
    ///
    /// # Errors
    /// As [`run`](Launcher::run).
    pub fn run_within(&self, launch: &Launch<'_>, grace: Duration) -> anyhow::Result<EngineFigures> {
        let (sql, out) = (self.scratch.join("cell.sql"), self.scratch.join("figures.json"));
        let _ = fs::remove_file(&out);
        fs::write(&sql, launch.sql).context("cannot write the SQL")?;
        let mut command = Command::new(&self.own);
        command.arg("engine-run").arg("--sql").arg(&sql).arg("--out").arg(&out);
        command.args(["--policy", launch.policy, "--millis", &launch.measured.as_millis().to_string()]);
        command.args(["--warm-up-millis", &launch.warm_up.as_millis().to_string()]);
        if launch.is_silent {
            command.arg("--silent");
        }
        if !launch.is_watched {
            command.arg("--unwatched");
        }
        if launch.is_changed {
            command.arg("--changed");
        }
        let errors = self.scratch.join("errors.txt");
        let stderr = fs::File::create(&errors).context("cannot write to the scratch folder")?;
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(stderr);
        let child = command.spawn().with_context(|| format!("cannot start {}", self.own.display()))?;
        let ended = wait(&mut Killed(child), launch.warm_up + launch.measured + grace)?;
        match fs::read(&out) {
            Ok(figures) => serde_json::from_slice(&figures).context("the figures are not what was asked for"),
            Err(_) => {
                let said = fs::read_to_string(&errors).unwrap_or_default();
                let said = said.trim().lines().last().unwrap_or("nothing").to_string();
                match ended {
                    true => bail!("the process ended without figures; it said: {said}"),
                    false => bail!("the process hung; it said: {said}"),
                }
            }
        }
    }
}

/// Waits for a process to end; false if it did not within `at_most`.
///
/// # Errors
/// If the system refuses to say.
pub fn wait(process: &mut Killed, at_most: Duration) -> anyhow::Result<bool> {
    let began = Instant::now();
    while process.0.try_wait()?.is_none() {
        if began.elapsed() > at_most {
            return Ok(false);
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(true)
}

impl Drop for Launcher {
    fn drop(&mut self) {
        // Left behind, it would only take room.
        let _ = fs::remove_dir_all(&self.scratch);
    }
}
