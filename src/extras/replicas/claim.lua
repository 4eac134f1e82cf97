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

-- Without a claim this still writes, so that a server that rejects writes is noticed.
local is_due = ARGV[4] ~= '' and slot >= tonumber(ARGV[4])
local claim = string.format('%s:%.0f', KEYS[2], is_due and slot or 0)
local is_new = redis.call('SET', claim, ARGV[1], 'NX', 'PX', ARGV[5])
local is_claimed = is_due and (is_new or redis.pcall('GET', claim) == ARGV[1])

-- One byte more than the maximum, so that the replica rejects a longer record.
local record = redis.pcall('GETRANGE', KEYS[1], 0, ARGV[6])
if type(record) ~= 'string' then
  record = '!'
end
return { now, slot, is_claimed and 1 or 0, record }
