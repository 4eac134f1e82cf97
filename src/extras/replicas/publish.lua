-- Stores the record of a slot and sends it to all replicas, unless that of a later slot or of the same one is stored.
--
-- KEYS  1 record
-- ARGV  1 slot, 2 current slot, 3 record, 4 lifetime in ms, 5 channel
local stored = redis.pcall('GET', KEYS[1])
local slot = type(stored) == 'string' and tonumber(string.match(stored, '^{"slot":(%d+),'))
-- A record of a slot that has not begun is from before the clock was set back.
if slot and slot >= tonumber(ARGV[1]) and slot <= tonumber(ARGV[2]) then
  return
end
redis.call('SET', KEYS[1], ARGV[3], 'PX', ARGV[4])
redis.call('PUBLISH', ARGV[5], ARGV[3])
