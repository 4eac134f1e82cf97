use std::path::{Path, PathBuf};

use super::*;
use crate::config::Config;
use crate::config::tests::{Directory, chain_toml};
use crate::extras::trend::bucket::UNKNOWN_RATIO;
use crate::extras::trend::{FeeTrend, HOUR, Sample};
use crate::store::{ChainStore, StoredChain};

/// Start of an hour and of a day.
const START: u32 = 1_800_000_000 - 1_800_000_000 % 86_400;

fn sample(number: u64, time: u32, base_fee: u64) -> Sample {
    Sample { number, base_fee, tip: 3, gas_used_ratio: UNKNOWN_RATIO, time }
}

fn file(directory: &Directory) -> PathBuf {
    directory.0.join("history.redb")
}

/// An instance of the service with two chains and this file.
struct Instance {
    database: Arc<HistoryDatabase>,
    trends: Trends,
    chain: StoredChain,
}

impl Instance {
    fn new(path: &Path) -> Self {
        let text = chain_toml("a", 7, "") + &chain_toml("b", 8, "");
        let (store, _) = ChainStore::new(&Config::from_toml(&text, &[]).unwrap().chains);
        let trends = Trends::new(&store, 7);
        let config = History { path: path.to_path_buf(), ..History::default() };
        let database = HistoryDatabase::new(&config, &trends).unwrap();
        Self { database, trends, chain: store.chains()[0].clone() }
    }

    /// Starts on this file, and opens it.
    fn start(path: &Path) -> Self {
        let instance = Self::new(path);
        instance.database.restore();
        instance
    }

    /// Starts on this file, and saves these blocks.
    fn with(path: &Path, samples: impl IntoIterator<Item = Sample>) -> Self {
        let instance = Self::start(path);
        instance.add(samples);
        instance.database.save();
        instance
    }

    fn is_open(&self) -> bool {
        self.database.open.lock().is_some()
    }

    fn add(&self, samples: impl IntoIterator<Item = Sample>) {
        let mut trend = self.trends.trend(&self.chain);
        samples.into_iter().for_each(|sample| trend.add(sample));
    }

    fn trend(&self) -> FeeTrend {
        self.trends.trend(&self.chain).clone()
    }

    /// The buckets of all periods in memory, seen at the newest block.
    fn buckets(&self) -> Vec<Vec<Bucket>> {
        let trend = self.trend();
        let now = trend.newest_known().into();
        Period::ALL.map(|period| trend.buckets(period, now)).into()
    }

    /// The hourly buckets of the file.
    fn hours(&self) -> Vec<Bucket> {
        let open = self.database.open.lock();
        let transaction = open.as_ref().unwrap().database.begin_read().unwrap();
        let buckets = transaction.open_table(BUCKETS).unwrap();
        let rows = buckets.range((7, HOUR, 0)..=(7, HOUR, u32::MAX)).unwrap();
        rows.map(|row| to_bucket(row.unwrap().1.value())).collect()
    }
}

/// The kind of the failure to open this file.
fn kind(path: &Path) -> &'static str {
    open_file(path).unwrap_err().into()
}

/// Blocks of so many hours, one a minute.
fn hours(count: u32) -> impl Iterator<Item = Sample> {
    (0..count * 60).map(|minute| sample(minute.into(), START + minute * 60, minute.into()))
}

#[test]
fn hours_are_kept_for_a_week() {
    let directory = Directory::new("days");
    let instance = Instance::start(&file(&directory));
    for day in 0..30 {
        let hours = (day * 24..(day + 1) * 24).map(|hour| (hour, START + hour * HOUR));
        instance.add(hours.map(|(hour, time)| sample(hour.into(), time, 1)));
        instance.database.save();
    }
    // The open hour comes on top.
    assert_eq!(instance.hours().len(), 169);
    drop(instance);
    let restarted = Instance::start(&file(&directory));
    assert_eq!((restarted.hours().len(), restarted.buckets()[2].len()), (169, 168));
}

#[tokio::test]
async fn a_state_is_kept_until_it_is_replaced_or_too_old() {
    let directory = Directory::new("states");
    let replace = async |instance: &Instance, known: &str, new: &str| {
        instance.database.replace("name", known, new).await.unwrap()
    };
    let first = Instance::start(&file(&directory));
    assert_eq!(replace(&first, "", "").await.entry, "");
    let one = replace(&first, "", "one").await;
    assert_eq!((one.is_own, one.state()), (true, "one"));
    // Another process was there first.
    let other = replace(&first, "", "two").await;
    assert_eq!((other.is_own, &other.entry), (false, &one.entry));
    drop(first);
    // It is written at once.
    let second = Instance::start(&file(&directory));
    let two = replace(&second, &one.entry, "two").await;
    assert!(two.is_own && two.age < Duration::from_mins(1));
    for time in ["1000", "99999999999999"] {
        let mut entries = second.database.states.lock();
        entries.insert(format!("from {time}"), format!("{time} old"));
    }
    replace(&second, &two.entry, "three").await;
    drop(second);
    let third = Instance::start(&file(&directory));
    let names: Vec<_> = third.database.states.lock().keys().cloned().collect();
    assert_eq!(names, ["name"]);
}

#[test]
fn nothing_is_written_without_a_change() {
    let directory = Directory::new("unchanged");
    let instance = Instance::with(&file(&directory), [sample(1, START, 7)]);
    assert_eq!(instance.hours().len(), 1);
    {
        let open = instance.database.open.lock();
        let transaction = open.as_ref().unwrap().database.begin_write().unwrap();
        transaction.delete_table(BUCKETS).unwrap();
        transaction.open_table(BUCKETS).unwrap();
        transaction.commit().unwrap();
    }
    instance.database.save();
    assert_eq!(instance.hours().len(), 0);
    instance.add([sample(2, START + 1, 7)]);
    instance.database.save();
    assert_eq!(instance.hours().len(), 1);
}

#[test]
fn a_reorganisation_and_a_wrong_clock_are_undone_in_the_file() {
    let directory = Directory::new("undone");
    let instance = Instance::with(&file(&directory), hours(3));
    instance.add([sample(179, START + 179 * 60, 9000)]);
    instance.database.save();
    assert_eq!(instance.hours()[2].base_fee[2], 9000);
    drop(instance);
    // The clock was an hour fast.
    let restarted = Instance::start(&file(&directory));
    restarted.trends.trend(&restarted.chain).remove_from_hour(START + HOUR);
    restarted.add([sample(180, START + HOUR + 60, 5)]);
    restarted.database.save();
    let after = restarted.buckets();
    drop(restarted);
    let again = Instance::start(&file(&directory));
    assert_eq!((again.buckets(), again.hours().len()), (after, 2));
}

#[test]
fn a_second_instance_adds_what_it_has_seen_once_the_first_has_ended() {
    let directory = Directory::new("second");
    let first = Instance::with(&file(&directory), hours(3).take(130));
    let second = Instance::start(&file(&directory));
    assert!(!second.is_open());
    second.add(hours(4).skip(100));
    second.database.save();
    assert!(!second.is_open());
    drop(first);
    second.database.save();
    assert!(second.is_open());
    let blocks = |buckets: &[Bucket]| buckets.iter().map(|it| it.blocks).collect::<Vec<_>>();
    assert_eq!(blocks(&second.buckets()[2]), [60, 60, 60, 60]);
    assert_eq!(blocks(&second.hours()), [60, 60, 60, 60]);
}

#[test]
fn only_a_database_is_changed() {
    let directory = Directory::new("foreign");
    let path = file(&directory);
    let json = b"{\"format\":\"another\"}".as_slice();
    for content in [json, b"x", &[0xFF; 5000]] {
        std::fs::write(&path, content).unwrap();
        drop(Instance::with(&path, hours(2)));
        assert_eq!(kind(&path), "foreign");
        assert_eq!(std::fs::read(&path).unwrap(), content);
    }
    std::fs::remove_file(&path).unwrap();
    // A database of another program.
    let other = Database::create(&path).unwrap();
    let transaction = other.begin_write().unwrap();
    transaction
        .open_table(TableDefinition::<u64, u64>::new("theirs"))
        .unwrap()
        .insert(1, 2)
        .unwrap();
    transaction.commit().unwrap();
    drop(other);
    let instance = Instance::with(&path, hours(2));
    assert!(!instance.is_open());
    assert_eq!(std::fs::read_dir(&directory.0).unwrap().count(), 1);
}

#[test]
fn a_link_is_not_followed_and_no_device_is_opened() {
    let directory = Directory::new("link");
    let target = directory.0.join("target");
    std::os::unix::fs::symlink(&target, file(&directory)).unwrap();
    assert_eq!(kind(&file(&directory)), "link");
    assert!(!target.exists());
    for path in [Path::new("/dev/null"), &directory.0] {
        assert_eq!(kind(path), "not_a_file", "{path:?}");
    }
    assert_eq!(kind(&directory.0.join("none/history.redb")), "io");
}

#[test]
fn a_damaged_file_is_renamed_and_what_is_in_memory_is_kept() {
    let directory = Directory::new("damaged");
    let path = file(&directory);
    let instance = Instance::with(&path, hours(30));
    drop(instance);
    let whole = std::fs::read(&path).unwrap();
    let mut flipped = whole.clone();
    flipped.iter_mut().skip(4096).for_each(|byte| *byte ^= 0x55);
    let mut unfinished = whole.clone();
    unfinished[..9].fill(0);
    let cut = |length| &whole[..length];
    for content in [cut(whole.len() / 2), cut(5000), cut(300), cut(9), &flipped, &unfinished] {
        std::fs::write(&path, content).unwrap();
        let instance = Instance::start(&path);
        assert!(instance.is_open());
        instance.add(hours(2));
        instance.database.save();
        drop(instance);
        assert_eq!(Instance::start(&path).hours().len(), 2);
        let renamed = std::fs::read_dir(&directory.0).unwrap().map(|it| it.unwrap().path());
        let renamed: Vec<_> = renamed.filter(|it| *it != path).collect();
        let [renamed] = &renamed[..] else { panic!("{renamed:?}") };
        assert_eq!(std::fs::read(renamed).unwrap().len(), content.len());
        std::fs::remove_file(renamed).unwrap();
    }
}
