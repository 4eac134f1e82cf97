//! Names and descriptions of all metrics.
//!
//! A name contains its unit. Label values come from closed sets or from the configuration.

pub(super) const HTTP_REQUESTS: &str = "gas_suggestion_http_requests_total";
pub(super) const HTTP_DURATION: &str = "gas_suggestion_http_request_duration_seconds";
pub(super) const SUGGESTION_RESPONSES: &str = "gas_suggestion_suggestion_responses_total";

pub(super) const CHAIN_STATUS: &str = "gas_suggestion_chain_status";
pub(super) const NEWEST_BLOCK: &str = "gas_suggestion_chain_newest_block";
pub(super) const DATA_AGE: &str = "gas_suggestion_chain_data_age_seconds";
pub(super) const HEAD_AGE: &str = "gas_suggestion_chain_head_age_seconds";
pub(super) const BLOCK_TIME: &str = "gas_suggestion_chain_block_time_seconds";
pub(super) const MAX_AGE: &str = "gas_suggestion_chain_max_age_seconds";
pub(super) const HEAD_REGRESSIONS: &str = "gas_suggestion_head_regressions_total";

/// Names of an amount's gauges in wei and in gwei.
pub(super) type AmountNames = [&'static str; 2];

pub(super) const BASE_FEE: AmountNames =
    ["gas_suggestion_base_fee_wei", "gas_suggestion_base_fee_gwei"];
pub(super) const NEXT_BASE_FEE: AmountNames =
    ["gas_suggestion_next_base_fee_wei", "gas_suggestion_next_base_fee_gwei"];
pub(super) const SUGGESTED_BASE_FEE: AmountNames =
    ["gas_suggestion_suggested_base_fee_wei", "gas_suggestion_suggested_base_fee_gwei"];
pub(super) const MAX_PRIORITY_FEE: AmountNames =
    ["gas_suggestion_max_priority_fee_wei", "gas_suggestion_max_priority_fee_gwei"];
pub(super) const MAX_FEE: AmountNames =
    ["gas_suggestion_max_fee_wei", "gas_suggestion_max_fee_gwei"];

pub(super) const POLLS: &str = "gas_suggestion_polls_total";
pub(super) const POLL_DURATION: &str = "gas_suggestion_poll_duration_seconds";
pub(super) const UPSTREAM_ATTEMPTS: &str = "gas_suggestion_upstream_attempts_total";
pub(super) const UPSTREAM_IN_USE: &str = "gas_suggestion_upstream_in_use";
pub(super) const UPSTREAM_STATE: &str = "gas_suggestion_upstream_state";
pub(super) const UPSTREAM_WRONG_CHAIN: &str = "gas_suggestion_upstream_wrong_chain";

pub(super) const NEW_HEADS: &str = "gas_suggestion_new_heads_total";
pub(super) const NEW_HEADS_UP: &str = "gas_suggestion_new_heads_up";

pub(super) const REDIS_UP: &str = "gas_suggestion_redis_up";
pub(super) const REDIS_FAILURES: &str = "gas_suggestion_redis_failures_total";
pub(super) const POLL_SLOTS: &str = "gas_suggestion_poll_slots_total";
pub(super) const REPLICA_MESSAGES: &str = "gas_suggestion_replica_messages_total";

pub(super) const UPSTREAM_READS: &str = "gas_suggestion_upstream_reads_total";
pub(super) const READS: &str = "gas_suggestion_reads_total";
pub(super) const PROXIED_REQUESTS: &str = "gas_suggestion_proxied_requests_total";
pub(super) const DELEGATION_LOOKUPS: &str = "gas_suggestion_delegation_lookups_total";
pub(super) const DELEGATION_BUDGET: &str = "gas_suggestion_delegation_budget_total";

pub(super) const CONNECTIONS: &str = "gas_suggestion_connections_total";
pub(super) const CONNECTION_TIMEOUTS: &str = "gas_suggestion_connection_timeouts_total";
pub(super) const RATE_LIMITED: &str = "gas_suggestion_requests_rate_limited_total";
pub(super) const STREAMS: &str = "gas_suggestion_streams";
pub(super) const STREAMS_REFUSED: &str = "gas_suggestion_streams_refused_total";
pub(super) const STREAM_EVENTS: &str = "gas_suggestion_stream_events_total";

pub(super) const CACHE_ENTRIES: &str = "gas_suggestion_cache_entries";
pub(super) const CACHE_BYTES: &str = "gas_suggestion_cache_bytes";
pub(super) const CHARTS_RENDERED: &str = "gas_suggestion_charts_rendered_total";
pub(super) const LINES_DROPPED: &str = "gas_suggestion_log_lines_dropped_total";
pub(super) const SPANS_DROPPED: &str = "gas_suggestion_spans_dropped_total";
pub(super) const BUILD: &str = "gas_suggestion_build_info";

pub(super) const COUNTERS: [(&str, &str); 22] = [
    (HTTP_REQUESTS, "HTTP requests by listener, route, method and response status"),
    (
        SUGGESTION_RESPONSES,
        "Responses of the suggestion route by freshness: fresh, stalled (recent data, but the chain's head has \
         not moved for stall_after), old (data older than two block times), unavailable (503)",
    ),
    (HEAD_REGRESSIONS, "Published newest blocks that are lower than the previous one"),
    (POLLS, "Polls of a chain by outcome: ok, or failed if no upstream returned a usable reply"),
    (UPSTREAM_ATTEMPTS, "Polls of an upstream by its index in rpc_urls and by outcome"),
    (NEW_HEADS, "New blocks announced by a WebSocket of ws_urls"),
    (REDIS_FAILURES, "Failed connection attempts to Redis and failed commands, by reason"),
    (
        POLL_SLOTS,
        "Poll slots of a chain: claimed (this replica polls), yielded (another replica polls), or standalone \
         (this replica polls without a claim: Redis is unavailable, or no other replica delivered)",
    ),
    (
        REPLICA_MESSAGES,
        "Fee histories published by other replicas, by outcome: adopted, duplicate, older than the current \
         one, rejected (this replica's pricing cannot compute a suggestion from it), implausible \
         (its newest block is further ahead than the chain can be), or invalid (no replica of \
         this version writes such a message)",
    ),
    (UPSTREAM_READS, "Reads sent to an upstream by its index in rpc_urls and by outcome"),
    (READS, "Reads of chain state for clients by outcome"),
    (PROXIED_REQUESTS, "Requests forwarded to an upstream by outcome"),
    (
        DELEGATION_LOOKUPS,
        "Delegation look-ups by the source of the response, or by the reason for the failure",
    ),
    (
        DELEGATION_BUDGET,
        "Requests to the delegation API without a key: shared (within the quota that all replicas share), \
         local (within this replica's own quota), or exhausted (not sent)",
    ),
    (CONNECTIONS, "Connections by outcome: accepted, or refused and why"),
    (CONNECTION_TIMEOUTS, "Connections closed because they missed a deadline, by deadline"),
    (RATE_LIMITED, "Requests rejected with 429 because their client exceeded its rate limit"),
    (STREAMS_REFUSED, "Streams rejected because of a limit"),
    (STREAM_EVENTS, "Events sent to streams"),
    (LINES_DROPPED, "Log lines dropped because the buffer was full or a write failed"),
    (SPANS_DROPPED, "Spans dropped because the queue was full or the export failed"),
    (CHARTS_RENDERED, "Charts rendered rather than served from the cache"),
];

pub(super) const GAUGES: [(&str, &str); 25] = [
    (CHAIN_STATUS, "1 for the current state of the chain's data: fresh, stale or unavailable"),
    (NEWEST_BLOCK, "Number of the newest published block"),
    (DATA_AGE, "Time since the last accepted reply, also if the data is too old to be served"),
    (HEAD_AGE, "Time since the number of the newest block changed"),
    (BLOCK_TIME, "The configured block_time"),
    (MAX_AGE, "The configured max_age: older data is not served"),
    (BASE_FEE[0], "Base fee of the newest block in wei"),
    (BASE_FEE[1], "Base fee of the newest block in gwei"),
    (NEXT_BASE_FEE[0], "Base fee of the next block in wei, if the upstream reports it"),
    (NEXT_BASE_FEE[1], "Base fee of the next block in gwei, if the upstream reports it"),
    (SUGGESTED_BASE_FEE[0], "base_fee_per_gas of the suggestion in wei"),
    (SUGGESTED_BASE_FEE[1], "base_fee_per_gas of the suggestion in gwei"),
    (MAX_PRIORITY_FEE[0], "max_priority_fee_per_gas of a tier in wei"),
    (MAX_PRIORITY_FEE[1], "max_priority_fee_per_gas of a tier in gwei"),
    (MAX_FEE[0], "max_fee_per_gas of a tier in wei"),
    (MAX_FEE[1], "max_fee_per_gas of a tier in gwei"),
    (
        UPSTREAM_IN_USE,
        "1 for the upstream, by its index in rpc_urls, whose reply was published last",
    ),
    (
        UPSTREAM_STATE,
        "1 for the state of an upstream: healthy, degraded (polled after others) or excluded",
    ),
    (UPSTREAM_WRONG_CHAIN, "1 while an upstream is excluded because it served another chain"),
    (NEW_HEADS_UP, "1 while a WebSocket of ws_urls announces new blocks"),
    (REDIS_UP, "1 if the last Redis command succeeded"),
    (STREAMS, "Open streams"),
    (CACHE_ENTRIES, "Number of entries in a cache"),
    (CACHE_BYTES, "Memory used by the entries of a cache"),
    (BUILD, "1 for the running version"),
];

pub(super) const HISTOGRAMS: [(&str, &str, &[f64]); 2] = [
    (
        HTTP_DURATION,
        "Time from a request's headers to its response headers",
        &[
            0.0001, 0.000_25, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0,
            2.5, 5.0, 10.0, 30.0,
        ],
    ),
    (
        POLL_DURATION,
        "Duration of a poll of a chain, over all upstreams tried",
        &[0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0],
    ),
];
