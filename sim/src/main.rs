//! Runs the service in simulated worlds, and says which promises it breaks.
//!
//! ```text
//! gas-suggestion-sim --year
//! gas-suggestion-sim --calm CHAINS SECONDS
//! gas-suggestion-sim [--from SEED] [--seeds COUNT] [--share JOB JOBS] [--twice] [--trace SEED [--scene NAME]]
//! ```
//!
//! The scenes come first, worlds in which a promise was broken once; with `--share` every so many of them. `--twice` runs each world twice and compares what
//! happens. `--trace` prints all that happens in the world of one seed, or of one seed of the scene whose name begins so.

mod chain;
mod clock;
mod node;
mod plan;
mod process;
mod promises;
mod redis;
mod scenes;
mod story;
mod world;
mod year;

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use plan::Plan;

struct Arguments {
    from: u64,
    seeds: u64,
    runs_twice: bool,
    /// Which of how many processes it is: each has a share of the scenes.
    share: (usize, usize),
    trace: Option<u64>,
    scene: Option<String>,
    is_year: bool,
    calm: Option<(usize, u64)>,
}

impl Arguments {
    fn parse() -> Result<Self, String> {
        let mut parsed = Self {
            from: 1,
            seeds: 300,
            runs_twice: false,
            share: (0, 1),
            trace: None,
            scene: None,
            is_year: false,
            calm: None,
        };
        let mut arguments = std::env::args().skip(1);
        while let Some(name) = arguments.next() {
            let mut value = || arguments.next().ok_or_else(|| format!("{name} needs a value"));
            let mut number = || {
                let value = value()?;
                value.parse().map_err(|_| format!("{name}: {value} is not a number"))
            };
            match name.as_str() {
                "--from" => parsed.from = number()?,
                "--seeds" => parsed.seeds = number()?,
                "--trace" => parsed.trace = Some(number()?),
                "--scene" => parsed.scene = Some(value()?),
                "--share" => parsed.share = (number()? as usize, number()?.max(1) as usize),
                "--twice" => parsed.runs_twice = true,
                "--year" => parsed.is_year = true,
                "--calm" => parsed.calm = Some((number()? as usize, number()?)),
                other => return Err(format!("unknown argument {other}")),
            }
        }
        if parsed.scene.is_some() && parsed.trace.is_none() {
            return Err("--scene needs --trace with a seed".into());
        }
        Ok(parsed)
    }
}

fn main() -> ExitCode {
    let arguments = match Arguments::parse() {
        Ok(arguments) => arguments,
        Err(error) => {
            eprintln!("gas-suggestion-sim: {error}");
            return ExitCode::from(2);
        }
    };
    if arguments.is_year || arguments.calm.is_some() {
        return if year::run(arguments.calm) { ExitCode::SUCCESS } else { ExitCode::FAILURE };
    }
    process::prepare();
    if let Some(seed) = arguments.trace {
        let plan = match &arguments.scene {
            Some(name) => scenes::all().into_iter().find_map(|(scene, plan)| {
                (scene.starts_with(name) && plan.seed == seed).then_some(plan)
            }),
            None => Some(Plan::new(seed)),
        };
        let Some(plan) = plan else {
            eprintln!("gas-suggestion-sim: no scene has this name and seed");
            return ExitCode::from(2);
        };
        let outcome = process::run(&plan, true);
        outcome.lines.iter().for_each(|line| println!("{line}"));
        print!("{}", story::tell(&plan, &outcome));
        return if outcome.violations.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE };
    }
    let started = Instant::now();
    let mut summary = Summary::default();
    let (job, jobs) = arguments.share;
    for (scene, plan) in scenes::all().into_iter().skip(job).step_by(jobs) {
        if !summary.judge(plan, arguments.runs_twice) {
            println!("  This is a scene: {scene}.");
        }
    }
    for seed in arguments.from..arguments.from + arguments.seeds {
        summary.judge(Plan::new(seed), arguments.runs_twice);
        let done = seed - arguments.from + 1;
        if done % 100 == 0 {
            let hours = summary.simulated.as_secs_f64() / 3600.0;
            let failed = summary.failed.len();
            eprintln!(
                "{done} of {} seeds, {hours:.1} simulated hours, {failed} failed",
                arguments.seeds
            );
        }
    }
    summary.print(started.elapsed());
    if summary.failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Counts over all worlds.
#[derive(Default)]
struct Summary {
    seeds: u64,
    simulated: Duration,
    calls: u64,
    responses: u64,
    faults: BTreeMap<String, u64>,
    checked: BTreeMap<String, u64>,
    failed: Vec<u64>,
}

impl Summary {
    /// Runs a world. Returns true if it keeps all promises.
    fn judge(&mut self, plan: Plan, runs_twice: bool) -> bool {
        let outcome = process::run(&plan, false);
        self.add(&plan, &outcome);
        if runs_twice && process::run(&plan, false).trace != outcome.trace {
            println!("seed {}: two runs differ", plan.seed);
            self.failed.push(plan.seed);
            return false;
        }
        if outcome.violations.is_empty() {
            return true;
        }
        self.failed.push(plan.seed);
        let (plan, outcome) = story::shrink(plan, outcome);
        print!("{}", story::tell(&plan, &outcome));
        false
    }

    fn add(&mut self, plan: &Plan, outcome: &world::Outcome) {
        self.seeds += 1;
        self.simulated += outcome.simulated;
        self.calls += outcome.calls;
        self.responses += outcome.responses;
        for fault in &plan.faults {
            *self.faults.entry(fault.what.kind()).or_default() += 1;
        }
        for (promise, count) in &outcome.checked {
            *self.checked.entry(promise.clone()).or_default() += count;
        }
    }

    fn print(&self, took: Duration) {
        let hours = self.simulated.as_secs_f64() / 3600.0;
        let per_hour = self.simulated.as_secs_f64() / took.as_secs_f64().max(0.001);
        println!(
            "{} seeds, {hours:.1} simulated hours in {:.0} s ({per_hour:.0} h in an hour), {} calls to nodes, {} responses",
            self.seeds,
            took.as_secs_f64(),
            self.calls,
            self.responses
        );
        let faults: Vec<_> =
            self.faults.iter().map(|(kind, count)| format!("{kind} {count}")).collect();
        println!("faults: {}", faults.join(", "));
        for (promise, count) in &self.checked {
            println!("{count:>9} checks: {promise}");
        }
        if !self.failed.is_empty() {
            println!("failed seeds: {:?}", self.failed);
        }
    }
}
