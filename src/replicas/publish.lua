-- Stores a record of a chain and sends it to all replicas, unless the stored one is newer.
--
-- A record is a line: slot, epoch, newest block, time of observation (us), replica, JSON. Slot and newest block
-- are zero-padded and compared as strings, because Lua numbers are exact only up to 2^53.
--
-- KEYS  1 record, then the verified chain of each upstream that has one
-- ARGV  1 slot, 2 epoch, 3 newest block, 4 age of the data and 5 Redis' clock when this was sent, both in us,
--       6 replica and JSON, 7 lifetime in ms, 8 channel, 9 length of a slot and 10 phase of the chain in us,
--       then the remaining ms of each verified chain
-- Returns "" if the record was published, else the stored record
local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000000 + tonumber(time[2])
local length = tonumber(ARGV[9])
local moment = now + tonumber(ARGV[10])
local current = string.format('%020.0f', (moment - moment % length) / length)

local stored = redis.pcall('GET', KEYS[1])
if type(stored) == 'string' and redis.call('PTTL', KEYS[1]) ~= -1 then
  local slot, epoch, head = string.match(stored, '^(%d+) (%d+) (%d+) %d+ %x+ ')
  -- A record of a slot that has not begun is from before the clock was set back.
  if slot and #slot == 20 and #head == 20 and slot <= current then
    local is_older = slot > ARGV[1] or tonumber(epoch) > tonumber(ARGV[2])
    local is_lower = tonumber(epoch) == tonumber(ARGV[2]) and head > ARGV[3]
    if is_older or is_lower then
      return stored
    end
  end
end

-- Redis may run this script long after it was sent. That time is part of the age.
local waited = math.max(now - tonumber(ARGV[5]), 0)
local observed = string.format('%.0f', now - tonumber(ARGV[4]) - waited)
local value = table.concat({ ARGV[1], ARGV[2], ARGV[3], observed, ARGV[6] }, ' ')
redis.call('SET', KEYS[1], value, 'PX', ARGV[7])
for i = 2, #KEYS do
  redis.call('SET', KEYS[i], '1', 'PX', ARGV[9 + i])
end
redis.call('PUBLISH', ARGV[8], string.format('value %.0f %s', now, value))
return ''
