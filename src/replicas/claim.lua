-- Claims the current slot of a chain for one replica, and returns the shared state of the chain.
--
-- KEYS  1 record, 2 prefix of the claim keys,
--       then for each upstream: its cool-down, its verified chain
-- ARGV  1 replica id, 2 length of a slot and 3 phase of the chain in us, 4 lifetime of a claim in ms,
--       5 "1" to claim or "0" only to read, 6 maximum size of a record in bytes
-- Returns the time in us, the slot, 1 if it was claimed, the record ("": none, "!": not written by this
--       service), and for each upstream the remaining ms of its cool-down and its verified chain (below 0: none)
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
-- This service never stores a record without a time to live.
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
