-- Claims the current slot of a chain for one replica, and tells what is known of the chain.
--
-- KEYS  1 value, 2 what the keys of claims begin with,
--       then for each upstream: its cool-down, its proof
-- ARGV  1 the replica, 2 the length of a slot and 3 the chain's phase in us, 4 for how long a claim is
--       kept in ms, 5 whether to claim ("1") or only to look, 6 the most bytes of a value
-- Gives the time in us, the slot, 1 where it was claimed, the value ("": none, "!": what can be none),
--       and for each upstream the remaining ms of its cool-down and its proof (below 0: none)
local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000000 + tonumber(time[2])
local length = tonumber(ARGV[2])
local moment = now + tonumber(ARGV[3])
local slot = (moment - moment % length) / length

local claimed = 0
if ARGV[5] == '1' then
  local claim = string.format('%s:%.0f', KEYS[2], slot)
  if redis.call('SET', claim, ARGV[1], 'NX', 'PX', ARGV[4]) then
    claimed = 1
  end
end

local value = ''
local size = redis.pcall('STRLEN', KEYS[1])
-- A value that is kept for ever is none of ours.
local is_foreign = type(size) ~= 'number' or size > tonumber(ARGV[6]) or redis.call('PTTL', KEYS[1]) == -1
if is_foreign then
  value = '!'
elseif size > 0 then
  value = redis.call('GET', KEYS[1])
end

local upstreams = {}
for i = 3, #KEYS do
  upstreams[#upstreams + 1] = redis.call('PTTL', KEYS[i])
end
return { now, slot, claimed, value, upstreams }
