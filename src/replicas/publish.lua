-- Makes a value what is known of a chain, unless what is known is newer, and tells all replicas.
--
-- A value is a line: slot, epoch, newest block, when it was observed (us), replica, JSON. The slot and the
-- newest block have leading zeros, so that they compare as texts: numbers of Lua are exact up to 2^53.
--
-- KEYS  1 value, then the proof of each upstream that has one
-- ARGV  1 slot, 2 epoch, 3 newest block, 4 the value's age in us when this was sent, and 5 what the clock said
--       then, 6 replica and JSON, 7 for how long it is kept in ms, 8 channel, 9 the length of a slot and
--       10 the chain's phase in us, then the ms that each proof holds
-- Gives "" where it was published, else the value that stands
local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000000 + tonumber(time[2])
local length = tonumber(ARGV[9])
local moment = now + tonumber(ARGV[10])
local current = string.format('%020.0f', (moment - moment % length) / length)

local stored = redis.pcall('GET', KEYS[1])
if type(stored) == 'string' and redis.call('PTTL', KEYS[1]) ~= -1 then
  local slot, epoch, head = string.match(stored, '^(%d+) (%d+) (%d+) %d+ %x+ ')
  -- One of a slot that has not begun is from before the clock was put back.
  if slot and #slot == 20 and #head == 20 and slot <= current then
    local is_older = slot > ARGV[1] or tonumber(epoch) > tonumber(ARGV[2])
    local is_lower = tonumber(epoch) == tonumber(ARGV[2]) and head > ARGV[3]
    if is_older or is_lower then
      return stored
    end
  end
end

-- This may have waited for long until it was run.
local waited = math.max(now - tonumber(ARGV[5]), 0)
local observed = string.format('%.0f', now - tonumber(ARGV[4]) - waited)
local value = table.concat({ ARGV[1], ARGV[2], ARGV[3], observed, ARGV[6] }, ' ')
redis.call('SET', KEYS[1], value, 'PX', ARGV[7])
for i = 2, #KEYS do
  redis.call('SET', KEYS[i], '1', 'PX', ARGV[9 + i])
end
redis.call('PUBLISH', ARGV[8], string.format('value %.0f %s', now, value))
return ''
