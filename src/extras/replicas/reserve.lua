-- Counts the requests that all replicas send to an API, in a sliding window.
--
-- KEYS  1 requests by the time in ms until which each counts, 2 present during the cool-down of the API
-- ARGV  1 command: "reserve" a permit, "hold" one for another time, or "pause" all; 2 request id,
--       3 requests that may count at a time, 4 time in ms for which the request counts, or the pause lasts
-- Returns the ms until a permit is free; 0: it was reserved
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local duration = tonumber(ARGV[4])
if redis.call('TYPE', KEYS[1]).ok ~= 'zset' then
  redis.call('DEL', KEYS[1])
end
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now)
local wait = redis.call('PTTL', KEYS[2])
if ARGV[1] == 'pause' then
  if duration > math.max(wait, 0) then
    redis.call('SET', KEYS[2], '1', 'PX', duration)
  end
  return 0
elseif ARGV[1] == 'hold' then
  redis.call('ZADD', KEYS[1], 'XX', now + duration, ARGV[2])
  return 0
end
-- Requests that count longer than any other are from before the clock was set back.
redis.call('ZREMRANGEBYSCORE', KEYS[1], now + duration + 60000, '+inf')
-- The request that must stop counting first, if as many requests count as may.
local oldest = redis.call('ZRANGE', KEYS[1], -ARGV[3], -ARGV[3], 'WITHSCORES')
if oldest[2] then
  wait = math.max(wait, oldest[2] - now)
end
if wait > 0 then
  return math.ceil(wait)
end
redis.call('ZADD', KEYS[1], now + duration, ARGV[2])
-- Longer than any request counts.
redis.call('PEXPIRE', KEYS[1], duration * 2 + 60000)
return 0
