//! The names of all metrics, and what is said of each.
//!
//! Names carry their unit; labels take their values from closed sets, or from the configuration.

pub(super) const HTTP_REQUESTS: &str = "gas_suggestion_http_requests_total";
pub(super) const HTTP_DURATION: &str = "gas_suggestion_http_request_duration_seconds";
pub(super) const ANSWERS: &str = "gas_suggestion_answers_total";

pub(super) const CHAIN_STATUS: &str = "gas_suggestion_chain_status";
pub(super) const NEWEST_BLOCK: &str = "gas_suggestion_chain_newest_block";
pub(super) const DATA_AGE: &str = "gas_suggestion_chain_data_age_seconds";
pub(super) const HEAD_AGE: &str = "gas_suggestion_chain_head_age_seconds";
pub(super) const BLOCK_TIME: &str = "gas_suggestion_chain_block_time_seconds";
pub(super) const MAX_AGE: &str = "gas_suggestion_chain_max_age_seconds";
pub(super) const HEAD_REGRESSIONS: &str = "gas_suggestion_head_regressions_total";

/// An amount is there in wei and in gwei.
pub(super) type InBothUnits = [&'static str; 2];

pub(super) const BASE_FEE: InBothUnits =
    ["gas_suggestion_base_fee_wei", "gas_suggestion_base_fee_gwei"];
pub(super) const NEXT_BASE_FEE: InBothUnits =
    ["gas_suggestion_next_base_fee_wei", "gas_suggestion_next_base_fee_gwei"];
pub(super) const SUGGESTED_BASE_FEE: InBothUnits =
    ["gas_suggestion_suggested_base_fee_wei", "gas_suggestion_suggested_base_fee_gwei"];
pub(super) const MAX_PRIORITY_FEE: InBothUnits =
    ["gas_suggestion_max_priority_fee_wei", "gas_suggestion_max_priority_fee_gwei"];
pub(super) const MAX_FEE: InBothUnits =
    ["gas_suggestion_max_fee_wei", "gas_suggestion_max_fee_gwei"];

pub(super) const POLLS: &str = "gas_suggestion_polls_total";
pub(super) const POLL_DURATION: &str = "gas_suggestion_poll_duration_seconds";
pub(super) const ATTEMPTS: &str = "gas_suggestion_upstream_attempts_total";
pub(super) const IN_USE: &str = "gas_suggestion_upstream_in_use";
pub(super) const STANDING: &str = "gas_suggestion_upstream_standing";
pub(super) const WRONG_CHAIN: &str = "gas_suggestion_upstream_wrong_chain";

pub(super) const NEW_HEADS: &str = "gas_suggestion_new_heads_total";
pub(super) const NEW_HEADS_UP: &str = "gas_suggestion_new_heads_up";

pub(super) const REDIS_UP: &str = "gas_suggestion_redis_up";
pub(super) const REDIS_FAILURES: &str = "gas_suggestion_redis_failures_total";
pub(super) const TURNS: &str = "gas_suggestion_turns_total";
pub(super) const SHARED_VALUES: &str = "gas_suggestion_shared_values_total";

pub(super) const READ_ATTEMPTS: &str = "gas_suggestion_upstream_reads_total";
pub(super) const READS: &str = "gas_suggestion_reads_total";
pub(super) const PROXIED: &str = "gas_suggestion_proxied_requests_total";
pub(super) const DELEGATION_LOOKUPS: &str = "gas_suggestion_delegation_lookups_total";
pub(super) const DELEGATION_BUDGET: &str = "gas_suggestion_delegation_budget_total";

pub(super) const CONNECTIONS: &str = "gas_suggestion_connections_total";
pub(super) const CONNECTIONS_CUT: &str = "gas_suggestion_connections_cut_total";
pub(super) const RATE_LIMITED: &str = "gas_suggestion_requests_rate_limited_total";
pub(super) const STREAMS: &str = "gas_suggestion_streams";
pub(super) const STREAMS_REFUSED: &str = "gas_suggestion_streams_refused_total";
pub(super) const STREAM_EVENTS: &str = "gas_suggestion_stream_events_total";

pub(super) const CACHE_ENTRIES: &str = "gas_suggestion_cache_entries";
pub(super) const CACHE_BYTES: &str = "gas_suggestion_cache_bytes";
pub(super) const CHARTS_DRAWN: &str = "gas_suggestion_charts_drawn_total";
pub(super) const LINES_DROPPED: &str = "gas_suggestion_log_lines_dropped_total";
pub(super) const SPANS_LOST: &str = "gas_suggestion_spans_lost_total";
pub(super) const BUILD: &str = "gas_suggestion_build_info";

pub(super) const COUNTERS: [(&str, &str); 22] = [
    (HTTP_REQUESTS, "HTTP requests by listener, route, method and status of the answer"),
    (
        ANSWERS,
        "Answers with a chain's suggestion by how fresh it was: fresh, stalled (young, but the \
         chain's head stands still), old (above two block times), unavailable (no answer)",
    ),
    (HEAD_REGRESSIONS, "Newest blocks that were published although they are below the last one"),
    (POLLS, "Polls of a chain by whether they gave something that could be believed"),
    (ATTEMPTS, "Polls of an upstream by its place in rpc_urls and by what came of them"),
    (NEW_HEADS, "Announcements of new blocks by a WebSocket of ws_urls"),
    (
        REDIS_FAILURES,
        "Attempts to connect to Redis, and commands, that failed, by the kind of failure",
    ),
    (
        TURNS,
        "Turns at polling a chain: claimed by this replica, left to another one, or taken alone because \
         Redis could not be asked or nothing came of the others",
    ),
    (
        SHARED_VALUES,
        "What other replicas have published of a chain by what came of it: adopted, known already, older \
         than what is known, rejected (this replica's pricing makes no suggestion of it), implausible \
         (its newest block is further ahead than the chain can be), or foreign (nothing that a replica of \
         this version can have published)",
    ),
    (READ_ATTEMPTS, "Reads sent to an upstream by its place in rpc_urls and by what came of them"),
    (READS, "Reads of chain state for clients by what came of them"),
    (PROXIED, "Requests passed on to an upstream by what came of them"),
    (DELEGATION_LOOKUPS, "Look-ups of delegations by who answered them, or by what came of them"),
    (
        DELEGATION_BUDGET,
        "Requests to the delegation API without a key: within the budget that replicas share, within what \
         this one may send by itself (local), or not sent because that was spent",
    ),
    (CONNECTIONS, "Connections by what became of them"),
    (CONNECTIONS_CUT, "Connections that were cut, by the deadline they missed"),
    (RATE_LIMITED, "Requests that were refused because their client had spent its budget"),
    (STREAMS_REFUSED, "Streams that were refused for want of a place"),
    (STREAM_EVENTS, "Events given to streams"),
    (LINES_DROPPED, "Log lines that nobody took in time, or that could not be written"),
    (SPANS_LOST, "Spans that the collector did not take, or for which there was no place"),
    (CHARTS_DRAWN, "Charts that were drawn, not taken from memory"),
];

pub(super) const GAUGES: [(&str, &str); 25] = [
    (CHAIN_STATUS, "1 for what the chain's data is now: fresh, stale or unavailable"),
    (NEWEST_BLOCK, "Number of the newest block that was published"),
    (DATA_AGE, "Time since a reply was last accepted, whether it may still be served or not"),
    (HEAD_AGE, "Time since the number of the newest block changed"),
    (BLOCK_TIME, "block_time of the configuration"),
    (MAX_AGE, "max_age of the configuration: older data is not served"),
    (BASE_FEE[0], "Base fee of the newest block in wei"),
    (BASE_FEE[1], "Base fee of the newest block in gwei"),
    (NEXT_BASE_FEE[0], "Base fee of the next block in wei, where the upstream tells it"),
    (NEXT_BASE_FEE[1], "Base fee of the next block in gwei, where the upstream tells it"),
    (SUGGESTED_BASE_FEE[0], "base_fee_per_gas of the suggestion in wei"),
    (SUGGESTED_BASE_FEE[1], "base_fee_per_gas of the suggestion in gwei"),
    (MAX_PRIORITY_FEE[0], "max_priority_fee_per_gas of a tier in wei"),
    (MAX_PRIORITY_FEE[1], "max_priority_fee_per_gas of a tier in gwei"),
    (MAX_FEE[0], "max_fee_per_gas of a tier in wei"),
    (MAX_FEE[1], "max_fee_per_gas of a tier in gwei"),
    (IN_USE, "1 for the upstream, by its place in rpc_urls, whose reply was published last"),
    (STANDING, "1 for how an upstream stands: well, resting (asked after others) or barred"),
    (WRONG_CHAIN, "1 while an upstream is not asked because it served another chain"),
    (NEW_HEADS_UP, "1 while a WebSocket of ws_urls is there to announce new blocks"),
    (REDIS_UP, "Whether Redis did what it was asked for last"),
    (STREAMS, "Streams of suggestions that are open"),
    (CACHE_ENTRIES, "Entries of a cache"),
    (CACHE_BYTES, "What the entries of a cache take"),
    (BUILD, "1 for the version that runs"),
];

pub(super) const HISTOGRAMS: [(&str, &str, &[f64]); 2] = [
    (
        HTTP_DURATION,
        "Time from a request's headers to the head of its answer",
        &[
            0.0001, 0.000_25, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0,
            2.5, 5.0, 10.0, 30.0,
        ],
    ),
    (
        POLL_DURATION,
        "Time that a poll of a chain took, with all upstreams that were asked",
        &[0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0],
    ),
];
