//! What Flink's REST interface answers, as far as it is used.

use serde::Deserialize;
use serde_json::Value;

/// `/config`.
#[derive(Debug, Deserialize)]
pub(super) struct DashboardConfig {
    #[serde(rename = "flink-version")]
    pub flink_version: String,
}

/// An entry of `/jobmanager/config`.
#[derive(Debug, Deserialize)]
pub(super) struct ConfigEntry {
    pub key: String,
    pub value: String,
}

/// `/jobs/overview`.
#[derive(Debug, Deserialize)]
pub(super) struct Jobs {
    pub jobs: Vec<JobSummary>,
}

#[derive(Debug, Deserialize)]
pub(super) struct JobSummary {
    pub jid: String,
    pub name: String,
    pub state: String,
    #[serde(rename = "start-time", default)]
    pub start_ms: i64,
}

/// `/jobs/J`.
#[derive(Debug, Deserialize)]
pub(super) struct Job {
    pub vertices: Vec<Vertex>,
    pub plan: JobPlan,
}

#[derive(Debug, Deserialize)]
pub(super) struct Vertex {
    pub id: String,
    pub name: String,
    pub parallelism: u32,
    pub status: String,
    #[serde(rename = "start-time")]
    pub start_ms: i64,
    pub metrics: VertexMetrics,
}

/// Sums over the subtasks.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) struct VertexMetrics {
    pub read_records: f64,
    pub read_records_complete: bool,
    pub write_records: f64,
    pub write_records_complete: bool,
    #[serde(default)]
    pub accumulated_backpressured_time: Value,
    #[serde(default)]
    pub accumulated_idle_time: Value,
    #[serde(default)]
    pub accumulated_busy_time: Value,
}

#[derive(Debug, Deserialize)]
pub(super) struct JobPlan {
    pub nodes: Vec<PlanNode>,
}

#[derive(Debug, Deserialize)]
pub(super) struct PlanNode {
    pub id: String,
    #[serde(default)]
    pub description: String,
    #[serde(default)]
    pub inputs: Vec<PlanInput>,
}

#[derive(Debug, Deserialize)]
pub(super) struct PlanInput {
    pub id: String,
}

/// `/jobs/J/vertices/V`.
#[derive(Debug, Deserialize)]
pub(super) struct VertexDetails {
    pub subtasks: Vec<Subtask>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) struct Subtask {
    pub subtask: u32,
    pub status: String,
    pub attempt: u32,
    #[serde(rename = "start-time")]
    pub start_ms: i64,
    #[serde(default)]
    pub taskmanager_id: String,
}

/// `/taskmanagers`.
#[derive(Debug, Deserialize)]
pub(super) struct TaskManagers {
    pub taskmanagers: Vec<TaskManager>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct TaskManager {
    pub id: String,
    pub path: String,
    pub data_port: u16,
}

/// An entry of `/jobs/J/vertices/V/watermarks` and of `…/subtasks/metrics`.
#[derive(Debug, Deserialize)]
pub(super) struct Metric {
    pub id: String,
    #[serde(default)]
    pub value: Option<String>,
    #[serde(default)]
    pub sum: Option<f64>,
    #[serde(default)]
    pub min: Option<f64>,
}

impl TaskManager {
    /// The ports it listens on: RPC, at the end of `pekko.tcp://flink@HOST:PORT/user/…`, and data.
    pub fn ports(&self) -> Vec<u16> {
        let rpc = self.path.split('@').nth(1).and_then(|rest| rest.split('/').next());
        let rpc = rpc.and_then(|address| address.rsplit_once(':')?.1.parse().ok());
        rpc.into_iter().chain((self.data_port > 0).then_some(self.data_port)).collect()
    }
}

impl VertexMetrics {
    /// busy + idle + back-pressured, ms over all subtasks: how long they had run when the metrics were taken, which is
    /// how old a cached answer is told. `None` for legacy sources, whose busy time is NaN.
    pub fn lived_ms(&self) -> Option<f64> {
        let times =
            [&self.accumulated_busy_time, &self.accumulated_idle_time, &self.accumulated_backpressured_time];
        times.into_iter().map(Value::as_f64).sum::<Option<f64>>().filter(|&ms| ms > 0.0)
    }
}
