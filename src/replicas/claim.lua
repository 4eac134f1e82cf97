-- Claims the current slot of a chain for one replica, and reads the chain's record.
--
-- KEYS  1 record, 2 prefix of the claim keys
-- ARGV  1 replica id, 2 length of a slot and 3 phase of the chain in us, 4 first slot to claim or "" only to read,
--       5 lifetime of a claim in ms, 6 maximum size of a record in bytes
-- Returns the time in us, the slot, 1 if this replica holds it, and the record ("": none, "!": not a string)
local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000000 + tonumber(time[2])
local length, moment = tonumber(ARGV[2]), now + tonumber(ARGV[3])
local slot = (moment - moment % length) / length

local claimed = 0
if ARGV[4] ~= '' and slot >= tonumber(ARGV[4]) then
  local claim = string.format('%s:%.0f', KEYS[2], slot)
  if redis.call('SET', claim, ARGV[1], 'NX', 'PX', ARGV[5]) or redis.pcall('GET', claim) == ARGV[1] then
    claimed = 1
  end
end

-- One byte more than the maximum, so that the replica rejects a longer record.
local record = redis.pcall('GETRANGE', KEYS[1], 0, ARGV[6])
if type(record) ~= 'string' then
  record = '!'
end
return { now, slot, claimed, record }
