//! Everything that real nodes were seen to do, one after the other, to one chain of ten: at the
//! start, while the service runs, and after it is over.

mod rig;
mod scenes;
mod secrets;
mod truth;

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use serde_json::{Value, json};

use crate::fault_proxy::{Bloat, Fault, Gzip, Reply, Scope};
use rig::{Healthy, Rig, Setup, Stage, Suggestion, Urls, unpleasant_text};
use truth::{Window, longer_history, newest_of, quantity};

/// One way in which a node can be at fault.
struct Case {
    /// The row of the catalogue.
    row: u8,
    name: String,
    setup: Setup,
    play: Play,
}

/// What the service has to make of it.
enum Play {
    /// The reply is not used: 503 at the start, later the last good value for as long as it may be.
    Refused(Refused),
    /// The reply is used, and comes to this.
    Used { fault: Fault, window: fn(u64) -> Window, market: fn(&Value) },
    /// The second URL serves on.
    PassedOver { reason: &'static str, fault: Fault, scope: Scope },
    /// A course of its own.
    Own(Scene),
}

type Scene = fn(Stage, Setup) -> Pin<Box<dyn Future<Output = ()>>>;

struct Refused {
    /// The outcome that is counted.
    reason: &'static str,
    fault: Fault,
    scope: Scope,
    /// What happens first when the service runs already, and its outcome: to serve another chain
    /// is noticed after an error.
    onset: Option<(Fault, &'static str)>,
    /// The least time between two calls of this method while the fault lasts.
    gap: Option<(&'static str, Duration)>,
    /// The longest time until the node is asked again after the fault.
    rest: Duration,
}

/// How many cases are played at once: they mostly wait.
const PLAYERS: usize = 6;

/// How many cases may be played once more, alone.
const MOST_SECOND_TRIES: usize = 10;

/// What no busy machine is an excuse for.
const NEVER_BY_CHANCE: [&str; 3] = ["a wrong number", "a secret is told", "a panic"];

#[test]
fn one_chain_of_ten_with_any_fault_serves_nothing_wrong_and_nine_serve_on() {
    let cases = cases();
    let mut rows: Vec<_> = cases.iter().map(|case| case.row).collect();
    rows.sort_unstable();
    rows.dedup();
    assert_eq!(rows, (1..=37).collect::<Vec<_>>(), "a row of the catalogue has no case");

    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime.worker_threads(1).enable_all().build().unwrap();
    let healthy = Arc::new(runtime.block_on(Healthy::start()));
    let (next, failures) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..PLAYERS {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    let Some(case) = cases.get(number) else { return };
                    if let Err(failure) = try_play(case, number, &healthy) {
                        failures.lock().unwrap().push((number, failure));
                    }
                }
            });
        }
    });
    let mut failures = failures.into_inner().unwrap();
    // A machine that is busy with other things may miss a deadline; then few cases fail, and not
    // alone and again.
    if failures.len() <= MOST_SECOND_TRIES {
        failures.retain_mut(|(number, failure)| {
            if NEVER_BY_CHANCE.iter().any(|text| failure.contains(text)) {
                return true;
            }
            eprintln!("played again: {failure}");
            try_play(&cases[*number], *number, &healthy).map_err(|again| *failure = again).is_err()
        });
    }
    let failures: Vec<_> = failures.into_iter().map(|(_, failure)| failure).collect();
    assert!(
        failures.is_empty(),
        "{} of {} cases fail:\n\n{}",
        failures.len(),
        cases.len(),
        failures.join("\n\n")
    );
}

/// Plays the case and says how it fails.
fn try_play(case: &Case, number: usize, healthy: &Arc<Healthy>) -> Result<(), String> {
    let phase = Arc::new(Mutex::new("before the start"));
    let stage = Stage { healthy: Arc::clone(healthy), number, phase };
    catch_unwind(AssertUnwindSafe(|| play(case, &stage))).map_err(|panic| {
        let phase = *stage.phase.lock().unwrap();
        format!("row {}, {}, phase {phase}: {}", case.row, case.name, text_of(&*panic))
    })
}

fn text_of(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref().copied()).unwrap_or("a panic without a text")
}

fn play(case: &Case, stage: &Stage) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let setup = case.setup.clone();
    runtime.block_on(async {
        match &case.play {
            Play::Refused(refused) => play_refused(stage, setup, refused).await,
            Play::Used { fault, window, market } => {
                play_used(stage, setup, fault, *window, *market).await;
            }
            Play::PassedOver { reason, fault, scope } => {
                play_passed_over(stage, setup, reason, fault, *scope).await;
            }
            Play::Own(scene) => scene(stage.clone(), setup).await,
        }
    });
}

async fn play_refused(stage: &Stage, setup: Setup, refused: &Refused) {
    let Refused { reason, fault, scope, onset, gap, rest } = refused;
    let rig = Rig::start(stage, setup, &[(fault.clone(), *scope)]).await;
    rig.phase("start");
    rig.rises(0, reason, Suggestion::is_no_data).await;
    rig.read().await.is_no_data();
    rig.is_told_as("unavailable", Value::Null).await;

    rig.phase("recovery after the start");
    rig.lift().await;
    rig.is_fresh(Window::ending_with, *rest).await;

    rig.phase("steady state");
    if let Some((onset, reason)) = onset {
        let before = rig.count(0, reason).await;
        rig.break_with(onset, Scope::All).await;
        rig.until("the onset", async || rig.count(0, reason).await > before).await;
    }
    let before = rig.count(0, reason).await;
    rig.break_with(fault, *scope).await;
    let calls = gap.map(|(method, _)| rig.proxies[0].times(method).len());
    rig.until(reason, async || rig.count(0, reason).await > before).await;
    let last = rig.read().await.served.unwrap();
    rig.wears_out(&last).await;
    if let (Some((method, least)), Some(calls)) = (gap, calls) {
        let times = rig.proxies[0].times(method);
        for pair in times[calls..].windows(2) {
            let gap = pair[1] - pair[0];
            assert!(gap >= *least, "{method} again after {gap:?}");
        }
    }

    rig.phase("recovery");
    rig.lift().await;
    rig.is_fresh(Window::ending_with, *rest).await;
    rig.end().await;
}

async fn play_used(
    stage: &Stage,
    setup: Setup,
    fault: &Fault,
    window: fn(u64) -> Window,
    market: fn(&Value),
) {
    let mut rig = Rig::start(stage, setup.clone(), &[(fault.clone(), Scope::FeeHistory)]).await;
    let plain = if setup.columns == 2 { Window::of_two } else { Window::ending_with };
    rig.phase("start");
    rig.allowed = vec![window];
    rig.is_fresh(window, Duration::ZERO).await;
    market(&rig.process.get("/v1/a/fee-market").await.json());

    rig.phase("recovery after the start");
    rig.allowed = vec![window, plain];
    rig.lift().await;
    rig.is_fresh(plain, Duration::ZERO).await;
    rig.allowed = vec![plain];
    rig.read().await.served.unwrap();

    rig.phase("steady state");
    rig.allowed = vec![window, plain];
    rig.break_with(fault, Scope::FeeHistory).await;
    // Where both come to the same suggestion, only the calls tell them apart.
    for _ in 0..2 {
        rig.rises(0, "ok", Suggestion::is_fresh).await;
    }
    rig.allowed = vec![window];
    rig.is_fresh(window, Duration::ZERO).await;
    market(&rig.process.get("/v1/a/fee-market").await.json());

    rig.phase("recovery");
    rig.allowed = vec![window, plain];
    rig.lift().await;
    rig.is_fresh(plain, Duration::ZERO).await;
    rig.has_only_counted(&["ok"]).await;
    rig.end().await;
}

async fn play_passed_over(stage: &Stage, setup: Setup, reason: &str, fault: &Fault, scope: Scope) {
    let setup = Setup { urls: Urls::Two, ..setup };
    let mut rig = Rig::start(stage, setup.clone(), &[(fault.clone(), scope)]).await;
    rig.phase("start");
    rig.is_fresh(Window::ending_with, setup.longest_pause()).await;
    assert!(rig.count(0, reason).await > 0, "{:?}", rig.counts().await);

    rig.phase("recovery after the start");
    rig.lift().await;
    rig.serves_on(&setup).await;
    // Whoever let the service wait is not asked for long; to others it comes back.
    let comes_back = reason != "timeout";
    if comes_back {
        rig.rises(0, "ok", Suggestion::is_fresh).await;
    } else {
        rig.end().await;
        rig = Rig::start(stage, setup.clone(), &[]).await;
        rig.rises(0, "ok", |_| {}).await;
    }

    rig.phase("steady state");
    rig.is_fresh(Window::ending_with, Duration::ZERO).await;
    let before = rig.count(0, reason).await;
    rig.break_with(fault, scope).await;
    rig.serves_on(&setup).await;
    assert!(rig.count(0, reason).await > before, "{:?}", rig.counts().await);

    rig.phase("recovery");
    rig.lift().await;
    if comes_back {
        rig.rises(0, "ok", Suggestion::is_fresh).await;
    }
    rig.serves_on(&setup).await;
    rig.end().await;
}

impl Case {
    fn new(row: u8, name: &str, play: Play) -> Self {
        Self { row, name: name.into(), setup: Setup::default(), play }
    }

    fn refused(row: u8, name: &str, reason: &'static str, fault: Fault) -> Self {
        let (scope, onset, gap, rest) = (Scope::FeeHistory, None, None, Duration::ZERO);
        let refused = Refused { reason, fault, scope, onset, gap, rest };
        Self::new(row, name, Play::Refused(refused))
    }

    /// The same of a node that is not asked again at once.
    fn barred(
        row: u8,
        name: &str,
        reason: &'static str,
        fault: Fault,
        [gap, rest]: [Duration; 2],
    ) -> Self {
        let (scope, onset) = (Scope::FeeHistory, None);
        let gap = Some(("eth_feeHistory", gap));
        let refused = Refused { reason, fault, scope, onset, gap, rest };
        Self::new(row, name, Play::Refused(refused))
    }

    fn used(row: u8, name: &str, fault: Fault, window: fn(u64) -> Window) -> Self {
        Self::new(row, name, Play::Used { fault, window, market: |_| {} })
    }

    fn passed_over(row: u8, name: &str, reason: &'static str, fault: Fault) -> Self {
        let name = format!("{name}, and there is a second URL");
        Self::new(row, &name, Play::PassedOver { reason, fault, scope: Scope::FeeHistory })
    }

    fn own(row: u8, name: &str, scene: Scene) -> Self {
        Self::new(row, name, Play::Own(scene))
    }

    /// What `/fee-market` says meanwhile.
    fn with_market(mut self, check: fn(&Value)) -> Self {
        let Play::Used { market, .. } = &mut self.play else { panic!("nothing is used") };
        *market = check;
        self
    }

    /// The fault is for these calls.
    fn at(mut self, place: Scope) -> Self {
        match &mut self.play {
            Play::Refused(Refused { scope, .. }) | Play::PassedOver { scope, .. } => *scope = place,
            Play::Used { .. } | Play::Own(_) => panic!("no calls to choose from"),
        }
        self
    }

    fn with(mut self, change: impl FnOnce(&mut Setup)) -> Self {
        change(&mut self.setup);
        self
    }

    fn configured(self, more: &str) -> Self {
        self.with(|setup| setup.more = more.into())
    }

    fn of_two_columns(self) -> Self {
        self.with(|setup| setup.columns = 2)
    }
}

const NO_TIP_FLOOR: &str = "pricing.priority_fee_floor = \"0 wei\"";

fn cases() -> Vec<Case> {
    let tables = [
        scenes::cases(),
        rewards(),
        blocks(),
        base_fees(),
        spellings(),
        answers(),
        ids(),
        limits(),
        transport(),
    ];
    tables.into_iter().flatten().collect()
}

/// Replaces or, with `None`, removes a member of the result.
fn member(name: &'static str, value: Option<Value>) -> Fault {
    Fault::result(move |result| {
        let members = result.as_object_mut().unwrap();
        match &value {
            Some(value) => drop(members.insert(name.into(), value.clone())),
            None => drop(members.remove(name)),
        }
    })
}

/// Replaces elements of an array of the result.
fn elements(name: &'static str, places: &'static [usize], value: Value) -> Fault {
    Fault::result(move |result| places.iter().for_each(|at| result[name][*at] = value.clone()))
}

fn no_tips(newest: u64) -> Window {
    Window { tips: Vec::new(), ..Window::ending_with(newest) }
}

/// Without the tips of blocks 4 and 19 of the window.
fn two_left_out(newest: u64) -> Window {
    let mut window = Window::ending_with(newest);
    window.tips.remove(19);
    window.tips.remove(4);
    window
}

fn two_left_out_of_both(newest: u64) -> Window {
    let mut high_tips = Window::of_two(newest).high_tips.unwrap();
    high_tips.remove(19);
    high_tips.remove(4);
    Window { high_tips: Some(high_tips), ..two_left_out(newest) }
}

const TWO: &[usize] = &[4, 19];

fn rewards() -> Vec<Case> {
    let has_no_reward = |market: &Value| {
        assert_eq!(market["average_reward_per_gas"], json!([null]));
        assert_eq!(market["floors_applied"], json!({ "base_fee": false, "priority_fee": true }));
    };
    let is_average = |market: &Value| {
        assert_eq!(market["floors_applied"], json!({ "base_fee": false, "priority_fee": false }));
    };
    let zeros = || member("reward", Some(json!(vec![["0x0"]; 20])));
    let none = |newest| Window { tips: vec![0; 20], ..Window::ending_with(newest) };
    vec![
        Case::used(1, "no reward", member("reward", None), no_tips).with_market(has_no_reward),
        Case::used(1, "a null reward", member("reward", Some(Value::Null)), no_tips)
            .with_market(has_no_reward),
        Case::used(1, "an empty reward", member("reward", Some(json!([]))), no_tips)
            .with_market(has_no_reward),
        Case::refused(1, "no reward and no floor", "no_rewards", member("reward", None))
            .configured(NO_TIP_FLOOR),
        Case::passed_over(1, "no reward and no floor", "no_rewards", member("reward", None))
            .configured(NO_TIP_FLOOR),
        Case::used(2, "null rows", elements("reward", TWO, Value::Null), two_left_out)
            .with_market(is_average),
        Case::used(2, "rows with a null", elements("reward", TWO, json!([null])), two_left_out)
            .with_market(is_average),
        Case::used(
            2,
            "rows with a null at the second percentile",
            elements("reward", TWO, json!(["0x1", null])),
            two_left_out_of_both,
        )
        .of_two_columns(),
        Case::used(3, "empty rows", elements("reward", TWO, json!([])), two_left_out),
        Case::used(
            3,
            "nothing but empty rows",
            member("reward", Some(json!(vec![json!([]); 20]))),
            no_tips,
        )
        .with_market(has_no_reward),
        Case::used(
            3,
            "rows with one of two percentiles",
            elements("reward", TWO, json!(["0x1"])),
            two_left_out_of_both,
        )
        .of_two_columns(),
        Case::used(4, "nothing but zeros", zeros(), none).with_market(|market| {
            assert_eq!(market["average_reward_per_gas"], json!(["0"]));
            assert_eq!(market["floors_applied"]["priority_fee"], true);
        }),
        Case::used(4, "nothing but zeros and no floor", zeros(), |newest| Window {
            tips: vec![0; 20],
            tip_floor: 0,
            ..Window::ending_with(newest)
        })
        .configured(NO_TIP_FLOOR)
        .with_market(|market| {
            assert_eq!(market["average_reward_per_gas"], json!(["0"]));
            assert_eq!(market["floors_applied"]["priority_fee"], false);
        }),
    ]
}

fn last(count: usize, newest: u64) -> Window {
    let mut window = Window::ending_with(newest);
    window.base_fees.drain(..20 - count);
    window.tips.drain(..20 - count);
    window
}

fn blocks() -> Vec<Case> {
    let of = |blocks, columns| {
        Fault::result(move |result| {
            *result = longer_history(newest_of(result), blocks, columns);
        })
    };
    let has_twenty = |market: &Value| assert_eq!(market["window"]["blocks"], 20);
    vec![
        Case::used(5, "3 blocks of 20", of(3, 1), |newest| last(3, newest))
            .with_market(|market| assert_eq!(market["window"]["blocks"], 3)),
        Case::used(5, "1 block of 20", of(1, 1), |newest| last(1, newest))
            .with_market(|market| assert_eq!(market["window"]["blocks"], 1)),
        Case::used(
            6,
            "as many base fees as blocks",
            Fault::result(|result| drop(result["baseFeePerGas"].as_array_mut().unwrap().pop())),
            Window::ending_with,
        )
        .with_market(|market| {
            assert_eq!(market["next_base_fee_per_gas"], Value::Null);
            assert_eq!(market["window"]["blocks"], 20);
        }),
        Case::used(36, "61 blocks", of(61, 1), Window::ending_with).with_market(has_twenty),
        Case::used(36, "3 columns", of(20, 3), Window::ending_with).with_market(has_twenty),
        Case::used(36, "61 blocks of 3 columns", of(61, 3), Window::of_two)
            .of_two_columns()
            .with_market(has_twenty),
        Case::refused(13, "no oldest block", "bad_oldest_block", member("oldestBlock", None)),
        Case::passed_over(13, "no oldest block", "bad_oldest_block", member("oldestBlock", None)),
        Case::refused(
            13,
            "a misspelt oldest block",
            "bad_oldest_block",
            Fault::result(|result| {
                let oldest = result["oldestBlock"].take();
                result["oldestblock"] = oldest.clone();
                result["oldest_block"] = oldest;
                drop(result.as_object_mut().unwrap().remove("oldestBlock"));
            }),
        ),
        Case::refused(
            13,
            "a hash as the oldest block",
            "bad_oldest_block",
            member("oldestBlock", Some(format!("0x{}", "a7".repeat(32)).into())),
        ),
        Case::refused(
            13,
            "an oldest block that leaves no number for the newest",
            "bad_oldest_block",
            member("oldestBlock", Some(quantity(u64::MAX.into()))),
        ),
        Case::used(
            19,
            "a reorg at one height",
            Fault::result(|result| *result = doubled(result)),
            |newest| {
                let double = |amounts: &[u128]| amounts.iter().map(|amount| 2 * amount).collect();
                let Window { base_fees, tips, .. } = Window::ending_with(newest);
                let (base_fees, tips) = (double(&base_fees), double(&tips));
                Window { base_fees, tips, ..Window::ending_with(newest) }
            },
        )
        .with(|setup| setup.real_block = None),
    ]
}

/// A result with twice the fees.
fn doubled(result: &Value) -> Value {
    let double = |quantity: &Value| {
        let digits = quantity.as_str().unwrap().strip_prefix("0x").unwrap();
        truth::quantity(2 * u128::from_str_radix(digits, 16).unwrap())
    };
    let of = |array: &Value| array.as_array().unwrap().iter().map(double).collect::<Value>();
    let mut result = result.clone();
    result["baseFeePerGas"] = of(&result["baseFeePerGas"]);
    result["reward"] = result["reward"].as_array().unwrap().iter().map(of).collect();
    result
}

fn base_fees() -> Vec<Case> {
    let all = |amount: Value| member("baseFeePerGas", Some(json!(vec![amount; 21])));
    let over = || Value::from(format!("0x1{}", "0".repeat(32)));
    let giant = 10_u128.pow(21);
    vec![
        Case::refused(7, "no base fee", "no_base_fees", member("baseFeePerGas", Some(json!([])))),
        Case::passed_over(
            7,
            "no base fee",
            "no_base_fees",
            member("baseFeePerGas", Some(json!([]))),
        ),
        Case::refused(
            7,
            "null base fees",
            "no_base_fees",
            member("baseFeePerGas", Some(Value::Null)),
        ),
        Case::refused(7, "missing base fees", "no_base_fees", member("baseFeePerGas", None)),
        Case::refused(
            8,
            "a null among the base fees",
            "bad_base_fee",
            elements("baseFeePerGas", TWO, Value::Null),
        ),
        Case::refused(
            8,
            "a null as the next base fee",
            "bad_base_fee",
            elements("baseFeePerGas", &[20], Value::Null),
        ),
        Case::passed_over(
            8,
            "a null among the base fees",
            "bad_base_fee",
            elements("baseFeePerGas", TWO, Value::Null),
        ),
        Case::used(9, "a base fee of 0", all(json!("0x0")), |newest| Window {
            is_legacy: true,
            ..Window::ending_with(newest)
        }),
        Case::used(9, "a base fee of 0 where it is really 0", all(json!("0x0")), |newest| Window {
            base_fees: vec![0; 20],
            ..Window::ending_with(newest)
        })
        .configured("pricing.zero_base_fee = \"eip-1559\""),
        Case::used(
            10,
            "amounts over 64 bits",
            Fault::result(move |result| {
                result["baseFeePerGas"] = json!(vec![quantity(giant); 21]);
                result["reward"] = json!(vec![[quantity(3 * giant)]; 20]);
            }),
            |newest| Window {
                base_fees: vec![10_u128.pow(21); 20],
                tips: vec![3 * 10_u128.pow(21); 20],
                ..Window::ending_with(newest)
            },
        ),
        Case::refused(
            10,
            "a base fee over 128 bits",
            "amount_too_large",
            elements("baseFeePerGas", &[7], over()),
        ),
        Case::refused(
            10,
            "a reward over 128 bits",
            "amount_too_large",
            elements("reward", &[7], json!([over()])),
        ),
        Case::refused(10, "a sum over 128 bits", "overflow", all(quantity(u128::MAX / 2))),
        Case::passed_over(10, "a sum over 128 bits", "overflow", all(quantity(u128::MAX / 2))),
    ]
}

fn spellings() -> Vec<Case> {
    let each = |spell: fn(u128) -> Value| {
        Fault::result(move |result| {
            let read = |quantity: &Value| {
                let digits = quantity.as_str().unwrap().strip_prefix("0x").unwrap();
                spell(u128::from_str_radix(digits, 16).unwrap())
            };
            let of = |array: &Value| array.as_array().unwrap().iter().map(read).collect::<Value>();
            result["oldestBlock"] = read(&result["oldestBlock"]);
            result["baseFeePerGas"] = of(&result["baseFeePerGas"]);
            result["reward"] = result["reward"].as_array().unwrap().iter().map(of).collect();
        })
    };
    let mut cases = vec![
        Case::used(
            11,
            "leading zeros",
            each(|number| format!("0x0000{number:x}").into()),
            Window::ending_with,
        ),
        Case::used(
            11,
            "JSON integers",
            each(|number| u64::try_from(number).unwrap().into()),
            Window::ending_with,
        ),
    ];
    for spelling in ["0x", "1000", "-0x5", "0x-5"] {
        let of = |what| format!("{spelling:?} as {what}");
        let element = |name| elements(name, TWO, spelling.into());
        cases.extend([
            Case::used(
                12,
                &of("a reward"),
                elements("reward", TWO, json!([spelling])),
                two_left_out,
            ),
            Case::refused(12, &of("a base fee"), "bad_base_fee", element("baseFeePerGas")),
            Case::refused(
                12,
                &of("the oldest block"),
                "bad_oldest_block",
                member("oldestBlock", Some(spelling.into())),
            ),
        ]);
    }
    let no_ratio = |market: &Value| {
        assert_eq!(market["gas_used_ratio"], json!({ "latest": null, "average": null }));
    };
    let some_ratios = |market: &Value| {
        assert_eq!(market["gas_used_ratio"], json!({ "latest": null, "average": 0.5 }));
    };
    let nan = Fault::rewrite(|_, mut reply| {
        reply["result"]["gasUsedRatio"][19] = "bare".into();
        Reply::new(200, reply.to_string().replace("\"bare\"", "NaN"))
    });
    let ratio = |name, value| {
        Case::used(14, name, elements("gasUsedRatio", &[19], value), Window::ending_with)
            .with_market(some_ratios)
    };
    cases.extend([
        Case::used(14, "no ratios", member("gasUsedRatio", None), Window::ending_with)
            .with_market(no_ratio),
        Case::used(
            14,
            "null ratios",
            member("gasUsedRatio", Some(Value::Null)),
            Window::ending_with,
        )
        .with_market(no_ratio),
        ratio("a null as a ratio", Value::Null),
        ratio("a ratio above 1", json!(1.6)),
        ratio("a negative ratio", json!(-0.5)),
        Case::used(14, "a bare NaN as a ratio", nan, Window::ending_with).with_market(some_ratios),
    ]);
    cases
}

/// The same reply whatever the node says; `{path}` is what was called.
fn fixed(status: u16, body: &str) -> Fault {
    let body = body.to_owned();
    Fault::rewrite(move |call, _| Reply::new(status, body.replace("{path}", &call.path)))
}

fn error(code: i64, message: &'static str) -> Fault {
    Fault::rewrite(move |call, _| Reply::error(call, code, &message.replace("{path}", &call.path)))
}

/// The node's reply with other members beside its result.
fn envelope(change: fn(&mut Value)) -> Fault {
    Fault::rewrite(move |_, mut reply| {
        change(&mut reply);
        Reply::json(&reply)
    })
}

const SECOND: Duration = Duration::from_secs(1);

fn answers() -> Vec<Case> {
    let html =
        format!("<html>no {{path}} at {{path}} or /V2/CANARY-PATH or {}</html>", unpleasant_text());
    vec![
        Case::barred(
            16,
            "an unknown method",
            "unsupported",
            error(-32601, "the method eth_feeHistory does not exist"),
            // Four block times at first, then ever longer.
            [Duration::from_millis(80), Duration::from_secs(12)],
        )
        .with(|setup| setup.block = Duration::from_millis(20)),
        Case::passed_over(16, "an unknown method", "unsupported", error(-32601, "no such method"))
            .with(|setup| setup.block = Duration::from_millis(20)),
        Case::refused(20, "beyond head", "beyond_head", error(-32000, "request beyond head block")),
        Case::refused(21, "an error with HTTP 200", "node_error", error(-32000, "no {path}")),
        Case::passed_over(21, "an error with HTTP 200", "node_error", error(-32603, "internal")),
        Case::refused(
            21,
            "an error that is a text",
            "node_error",
            envelope(|reply| *reply = json!({ "id": reply["id"], "error": "slow down" })),
        ),
        Case::refused(
            22,
            "an error and a result",
            "node_error",
            envelope(|reply| reply["error"] = json!({ "code": -32000, "message": "no" })),
        ),
        Case::used(
            22,
            "a result with HTTP 500",
            Fault::rewrite(|_, reply| Reply::new(500, reply.to_string())),
            Window::ending_with,
        ),
        Case::refused(
            22,
            "an error with HTTP 404",
            "node_error",
            Fault::rewrite(|call, _| Reply { status: 404, ..Reply::error(call, -32000, "no") }),
        ),
        Case::refused(24, "a web page", "not_json", fixed(200, &html)),
        Case::refused(24, "a web page for all calls", "not_json", fixed(200, &html)).at(Scope::All),
        Case::refused(24, "nothing", "not_json", fixed(200, "")),
        Case::refused(24, "a text", "not_json", fixed(200, "\u{1b}[31mmaintenance {path}")),
        Case::refused(24, "a gateway's web page", "http_status", fixed(502, &html)),
        Case::passed_over(24, "a gateway's web page", "http_status", fixed(502, &html)),
        Case::refused(24, "JSON of another kind", "invalid_reply", fixed(200, "[{}]")),
    ]
}

fn ids() -> Vec<Case> {
    vec![
        Case::refused(30, "another id", "invalid_reply", envelope(|reply| reply["id"] = 0.into())),
        Case::refused(
            30,
            "an id of another type",
            "invalid_reply",
            envelope(|reply| reply["id"] = reply["id"].to_string().into()),
        ),
        Case::refused(
            30,
            "no id",
            "invalid_reply",
            envelope(|reply| drop(reply.as_object_mut().unwrap().remove("id"))),
        ),
        Case::refused(
            30,
            "a null id with a result",
            "invalid_reply",
            envelope(|reply| reply["id"] = Value::Null),
        ),
        Case::refused(
            30,
            "a null id with an error",
            "node_error",
            envelope(|reply| *reply = json!({ "id": null, "error": { "code": -32000 } })),
        ),
        Case::passed_over(
            30,
            "another id",
            "invalid_reply",
            envelope(|reply| reply["id"] = 0.into()),
        ),
    ]
}

fn limits() -> Vec<Case> {
    // A node that says nothing of when is asked after 1 s, 2 s, 4 s, each a tenth longer at most.
    let doubling = [SECOND, Duration::from_millis(4400)];
    let too_many = |retry_after: fn() -> Option<String>| {
        Fault::rewrite(move |_, _| {
            let reply = Reply::new(429, "too many");
            match retry_after() {
                Some(value) => reply.with("retry-after", value),
                None => reply,
            }
        })
    };
    let mut cases = vec![
        Case::barred(
            23,
            "429 with seconds",
            "rate_limited",
            too_many(|| Some("1".into())),
            [SECOND, SECOND * 11 / 10],
        ),
        Case::barred(
            23,
            "429 with a date",
            "rate_limited",
            too_many(|| {
                let date = SystemTime::now() + Duration::from_secs(2);
                Some(httpdate::fmt_http_date(date))
            }),
            // The date has no fraction of a second.
            [SECOND, SECOND * 22 / 10],
        ),
        Case::barred(23, "429 without a time", "rate_limited", too_many(|| None), doubling),
        Case::passed_over(23, "429", "rate_limited", too_many(|| Some("1".into()))),
        Case::barred(
            24,
            "a web page with 429",
            "rate_limited",
            fixed(429, "<html>{path}</html>"),
            doubling,
        ),
    ];
    for code in [-32005, -32007, -32016, -32029] {
        let name = format!("the rate limit {code}");
        let limit = error(code, "over the limit");
        cases.push(Case::barred(21, &name, "rate_limited", limit, doubling));
    }
    cases
}

fn transport() -> Vec<Case> {
    let refused = Case::refused;
    let ten_blocks = SECOND;
    vec![
        refused(25, "half of a gzip", "encoded", Fault::Gzip(Gzip::Truncated)),
        refused(25, "gzip that is none", "encoded", Fault::Gzip(Gzip::Plain)),
        refused(25, "gzip that nobody asked for", "encoded", Fault::Gzip(Gzip::Whole)),
        Case::passed_over(25, "gzip that is none", "encoded", Fault::Gzip(Gzip::Plain)),
        refused(25, "a body that ends early", "transport", Fault::Truncate(100)),
        refused(25, "a body without an end", "transport", Fault::Truncate(0)),
        refused(25, "a declared length that is too short", "not_json", Fault::CutLength(10)),
        refused(26, "300 KB", "too_large", Fault::Bloat(Bloat::Giant(300_000))),
        Case::used(26, "200 KB", Fault::Bloat(Bloat::Giant(200_000)), Window::ending_with),
        refused(26, "a body without an end", "too_large", Fault::Bloat(Bloat::Endless)),
        refused(26, "a bomb", "encoded", Fault::Bloat(Bloat::Bomb)),
        refused(26, "a bomb without a name", "not_json", Fault::Bloat(Bloat::UnnamedBomb)),
        Case::passed_over(26, "a body without an end", "too_large", Fault::Bloat(Bloat::Endless)),
        refused(27, "a byte a second", "timeout", Fault::Drip(1, SECOND)),
        refused(27, "an answer after the deadline", "timeout", Fault::Delay(SECOND * 2)),
        Case::passed_over(27, "a byte a second", "timeout", Fault::Drip(1, SECOND)),
        Case::used(
            27,
            "an answer within the deadline",
            Fault::Delay(Duration::from_millis(100)),
            Window::ending_with,
        ),
        refused(28, "nobody listens", "unreachable", Fault::Refuse).at(Scope::All),
        refused(28, "resets", "transport", Fault::Reset).at(Scope::All),
        refused(28, "silence", "timeout", Fault::Blackhole).at(Scope::All),
        Case::passed_over(28, "nobody listens", "unreachable", Fault::Refuse).at(Scope::All),
        Case::passed_over(28, "resets", "transport", Fault::Reset).at(Scope::All),
        Case::passed_over(28, "silence", "timeout", Fault::Blackhole).at(Scope::All),
        at_chain_id("another chain", "wrong_chain", "0x8", Some(("eth_chainId", ten_blocks))),
        at_chain_id("a chain id that is none", "invalid_reply", "seven", None),
    ]
}

/// Every chain id is this.
fn at_chain_id(
    name: &str,
    reason: &'static str,
    chain_id: &'static str,
    gap: Option<(&'static str, Duration)>,
) -> Case {
    let fault = Fault::result(move |result| *result = chain_id.into());
    let (scope, onset) = (Scope::ChainId, Some((Fault::Reset, "transport")));
    let rest = gap.map_or(Duration::ZERO, |(_, gap)| gap);
    Case::new(29, name, Play::Refused(Refused { reason, fault, scope, onset, gap, rest }))
}
