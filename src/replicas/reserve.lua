-- Reserves one of the permits for requests to an API, which all replicas share, and counts the replicas.
--
-- A permit is held until a window after the response. While its request is in flight it is held until the latest
-- time at which that can be, so the permits of a replica that dies expire. Each call sends all permits that the
-- replica holds. After Redis has lost them, no permit may be used until each replica has called again.
-- A replica that is silent may continue without Redis, so its share stays reserved while it is listed (30 s).
--
-- KEYS  1 permits by the time at which they expire, 2 permits in flight by the time at which their request was sent,
--       3 present during the cool-down of the API, 4 replicas by the time of their last call,
--       5 time since when this state has existed
-- ARGV  1 replica id, 2 requests per window, 3 window, 4 timeout and 5 typical latency of a request,
--       6 maximum wait for a permit, 7 cool-down of the API, all times in ms,
--       8 number of the permit to reserve, or "" for none,
--       then the time for which each permit of the replica is held, with "~" before it if its request is in flight
-- Returns 1 if a permit was reserved, the ms until it may be used or else until one is free, and the number of replicas
local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
local replica, requests, window = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local timeout, usual, patience = tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6])
-- Lifetime of the keys: longer than any permit is held.
local forgotten = 3 * 60 * 60 * 1000
-- By then each replica has called, or counts as silent.
local silence = 3000

for i = 1, 5 do
  local kind = redis.call('TYPE', KEYS[i]).ok
  if kind ~= 'none' and kind ~= ((i == 3 or i == 5) and 'string' or 'zset') then
    redis.call('DEL', KEYS[i])
  end
end

redis.call('ZADD', KEYS[4], now, replica)
redis.call('ZREMRANGEBYSCORE', KEYS[4], '-inf', now - 30000)
redis.call('PEXPIRE', KEYS[4], 30000)
local replicas = redis.call('ZCARD', KEYS[4])
local silent = redis.call('ZCOUNT', KEYS[4], '-inf', now - silence)
requests = math.max(requests - silent * math.max(math.floor(requests / replicas), 1), 0)

local since = tonumber(redis.call('GET', KEYS[5]) or nil)
if not since or since > now then
  since = now
end
redis.call('SET', KEYS[5], string.format('%.0f', since), 'PX', forgotten)

for i = 9, #ARGV do
  local place = replica .. ':' .. (i - 9)
  local sent, held = string.match(ARGV[i], '^(~?)(%d+)$')
  held = tonumber(held)
  if held > 0 then
    redis.call('ZADD', KEYS[1], now + held, place)
  else
    redis.call('ZREM', KEYS[1], place)
  end
  if held > 0 and sent == '~' then
    redis.call('ZADD', KEYS[2], now + held - timeout - 2 * window, place)
  else
    redis.call('ZREM', KEYS[2], place)
  end
end
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now)
redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', now - forgotten)

local closed = math.max(redis.call('PTTL', KEYS[3]), 0)
if tonumber(ARGV[7]) > closed then
  closed = tonumber(ARGV[7])
  redis.call('SET', KEYS[3], '1', 'PX', ARGV[7])
end

local taken, wait = 0, math.max(closed, since + silence - now)
if ARGV[8] ~= '' then
  local waits = {}
  local places = redis.call('ZRANGE', KEYS[1], 0, -1, 'WITHSCORES')
  for i = 1, #places, 2 do
    local sent = tonumber(redis.call('ZSCORE', KEYS[2], places[i]) or nil)
    if not sent then
      waits[#waits + 1] = tonumber(places[i + 1]) - now
    elseif now <= sent + usual then
      waits[#waits + 1] = sent + usual + window - 1000 - now
    else
      waits[#waits + 1] = math.max(sent + timeout - now, 0) + window - 1000
    end
  end
  table.sort(waits)
  local surplus = #waits + 1 - requests
  if requests == 0 then
    wait = math.max(wait, window)
  elseif surplus > 0 then
    wait = math.max(wait, waits[surplus])
  end
  if wait <= patience then
    local place = replica .. ':' .. ARGV[8]
    redis.call('ZADD', KEYS[1], now + wait + timeout + 2 * window, place)
    redis.call('ZADD', KEYS[2], now + wait, place)
    taken = 1
  end
end
redis.call('PEXPIRE', KEYS[1], forgotten)
redis.call('PEXPIRE', KEYS[2], forgotten)
return { taken, math.ceil(wait), replicas }
