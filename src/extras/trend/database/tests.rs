use std::path::{Path, PathBuf};

use super::*;
use crate::config::Config;
use crate::extras::trend::{FeeTrend, MINUTE, Period};
use crate::store::ChainStore;

/// Start of an hour and of a day.
const START: u32 = 1_800_000_000 - 1_800_000_000 % 86_400;

/// A new directory. Removed when dropped.
struct Directory(PathBuf);

impl Directory {
    fn new(name: &str) -> Self {
        let name = format!("gas-suggestion-database-{}-{name}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir(&path).unwrap();
        Self(path)
    }

    fn file(&self) -> PathBuf {
        self.0.join("history.redb")
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn sample(number: u64, time: u32, base_fee: u64) -> Sample {
    Sample { number, base_fee, tip: 3, gas_used_ratio: f64::NAN, time }
}

/// An instance of the service with two chains and this file.
struct Instance {
    database: HistoryDatabase,
    trends: Trends,
    chain: StoredChain,
}

impl Instance {
    fn new(path: &Path, days: u32) -> Self {
        let chain = |key: &str, id: u64| {
            format!("[chains.{key}]\nchain_id = {id}\nrpc_urls = [\"http://localhost\"]\n")
        };
        let text = format!("{}{}", chain("a", 7), chain("b", 8));
        let (store, _) = ChainStore::new(&Config::from_toml(&text, &[]).unwrap().chains);
        let trends = Trends::new(&store, days);
        let config = History::with_path(path, days);
        let database = HistoryDatabase::new(&config, &trends).unwrap();
        Self { database, trends, chain: store.chains()[0].clone() }
    }

    /// Starts on this file, and opens it.
    fn start(path: &Path) -> Self {
        let instance = Self::new(path, 400);
        instance.database.restore();
        instance
    }

    fn is_open(&self) -> bool {
        self.database.state.open.read().is_some()
    }

    fn add(&self, samples: impl IntoIterator<Item = Sample>) {
        let samples = samples.into_iter();
        self.trends.with(&self.chain, |trend| samples.for_each(|sample| trend.add(sample)));
    }

    fn trend(&self) -> FeeTrend {
        self.trends.with(&self.chain, |trend| trend.clone())
    }

    /// The buckets of all periods in memory, seen at the newest block.
    fn buckets(&self) -> Vec<Vec<Bucket>> {
        let trend = self.trend();
        let now = trend.newest_time.into();
        Period::IN_MEMORY.map(|period| trend.buckets(period, now)).into()
    }

    fn hours(&self) -> Vec<Bucket> {
        self.database.hours(&self.chain, 0).unwrap()
    }
}

/// Blocks of so many hours, one a minute.
fn hours(count: u32) -> impl Iterator<Item = Sample> {
    (0..count * 60).map(|minute| sample(minute.into(), START + minute * 60, minute.into()))
}

#[test]
fn a_restart_restores_all_but_the_open_minute() {
    let directory = Directory::new("restart");
    let first = Instance::start(&directory.file());
    first.add(hours(5).take(290));
    let newest = START + 289 * MINUTE;
    first.database.save(newest.into());
    let before = first.buckets();
    drop(first);
    let second = Instance::start(&directory.file());
    assert_eq!(second.trend().newest_block, 288);
    second.add([sample(289, newest, 289)]);
    assert_eq!(second.buckets(), before);
    let other = second.trends.store.chains()[1].clone();
    assert_eq!(second.trends.with(&other, |trend| trend.newest_block), 0);
}

#[test]
fn hours_are_kept_for_the_configured_days() {
    let directory = Directory::new("days");
    let a_year = || (0..9000_u32).map(|hour| sample(hour.into(), START + hour * HOUR, hour.into()));
    let instance = Instance::start(&directory.file());
    for day in a_year().collect::<Vec<_>>().chunks(24) {
        instance.add(day.iter().copied());
        instance.database.save(u64::MAX);
    }
    // The last hour is open.
    assert_eq!(instance.hours().len(), 8999);
    assert!(instance.buckets()[2].len() <= 169);
    drop(instance);
    let restarted = Instance::start(&directory.file());
    assert_eq!(restarted.hours().len(), 8999);
    assert_eq!(restarted.buckets()[2].len(), 168);
    drop(restarted);
    let shorter = Instance::new(&directory.file(), 30);
    shorter.database.restore();
    shorter.add([sample(9000, START + 9000 * HOUR, 1)]);
    shorter.database.save(u64::MAX);
    assert_eq!(shorter.hours().len(), 30 * 24);
}

#[test]
fn a_bucket_that_is_kept_is_never_replaced() {
    let directory = Directory::new("kept");
    let instance = Instance::start(&directory.file());
    instance.add(hours(3));
    instance.database.save(u64::MAX);
    let before = instance.hours();
    drop(instance);
    // Without its past, because the clock is an hour late.
    let poorer = Instance::new(&directory.file(), 400);
    poorer.add([sample(500, START + HOUR, 9), sample(501, START + 4 * HOUR, 9)]);
    poorer.database.save(u64::MAX);
    assert_eq!(poorer.hours()[..2], before[..2]);
}

#[test]
fn a_reorganisation_and_a_wrong_clock_are_undone_in_the_file() {
    let directory = Directory::new("undone");
    let instance = Instance::start(&directory.file());
    instance.add(hours(3));
    instance.database.save(u64::MAX);
    instance.trends.with(&instance.chain, |trend| {
        trend.open.remove_above(175);
        trend.newest_block = 175;
    });
    instance.add([sample(176, START + 176 * 60, 9000)]);
    instance.database.save(u64::MAX);
    drop(instance);
    let restarted = Instance::start(&directory.file());
    let newest = restarted.trend();
    assert_eq!((newest.newest_block, newest.base_fee(176)), (176, Some(9000)));
    // The clock was an hour fast.
    restarted.trends.with(&restarted.chain, |trend| trend.remove_from_hour(START + HOUR));
    restarted.add([sample(180, START + HOUR + 60, 5)]);
    restarted.database.save(u64::MAX);
    let after = restarted.buckets();
    drop(restarted);
    let again = Instance::start(&directory.file());
    assert_eq!((again.buckets(), again.hours().len()), (after, 1));
}

#[test]
fn a_second_instance_adds_what_it_has_seen_once_the_first_has_ended() {
    let directory = Directory::new("second");
    let first = Instance::start(&directory.file());
    first.add(hours(3).take(130));
    first.database.save(u64::MAX);
    let second = Instance::start(&directory.file());
    assert!(!second.is_open());
    second.add(hours(4).skip(100));
    second.database.save(u64::MAX);
    assert!(!second.is_open());
    drop(first);
    second.database.save(u64::MAX);
    assert!(second.is_open());
    let blocks = |buckets: &[Bucket]| buckets.iter().map(|it| it.blocks).collect::<Vec<_>>();
    assert_eq!(blocks(&second.buckets()[2]), [60, 60, 60, 60]);
    assert_eq!(blocks(&second.hours()), [60, 60, 60]);
}

#[test]
fn only_a_database_is_changed() {
    let directory = Directory::new("foreign");
    let path = directory.file();
    let json = b"{\"format\":\"another\"}".as_slice();
    for content in [json, b"x", &[0xFF; 5000]] {
        std::fs::write(&path, content).unwrap();
        let instance = Instance::start(&path);
        instance.add(hours(2));
        instance.database.save(u64::MAX);
        assert_eq!(open_file(&path).unwrap_err().kind(), "foreign");
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
    let instance = Instance::start(&path);
    instance.add(hours(2));
    instance.database.save(u64::MAX);
    assert!(!instance.is_open());
    assert_eq!(std::fs::read_dir(&directory.0).unwrap().count(), 1);
}

#[test]
fn a_link_is_not_followed_and_no_device_is_opened() {
    let directory = Directory::new("link");
    let target = directory.0.join("target");
    std::os::unix::fs::symlink(&target, directory.file()).unwrap();
    assert_eq!(open_file(&directory.file()).unwrap_err().kind(), "link");
    assert!(!target.exists());
    for path in [Path::new("/dev/null"), &directory.0] {
        assert_eq!(open_file(path).unwrap_err().kind(), "not_a_file", "{path:?}");
    }
    let missing = open_file(&directory.0.join("none/history.redb")).unwrap_err();
    assert_eq!(missing.kind(), "io");
}

#[test]
fn a_damaged_file_is_renamed_and_what_is_in_memory_is_kept() {
    let directory = Directory::new("damaged");
    let path = directory.file();
    let instance = Instance::start(&path);
    instance.add(hours(30));
    instance.database.save(u64::MAX);
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
        instance.database.save(u64::MAX);
        drop(instance);
        assert_eq!(Instance::start(&path).hours().len(), 1);
        let renamed = std::fs::read_dir(&directory.0).unwrap().map(|it| it.unwrap().path());
        let renamed: Vec<_> = renamed.filter(|it| *it != path).collect();
        let [renamed] = &renamed[..] else { panic!("{renamed:?}") };
        assert_eq!(std::fs::read(renamed).unwrap().len(), content.len());
        std::fs::remove_file(renamed).unwrap();
    }
}
