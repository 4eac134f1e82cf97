-- Makes a value what is known of a chain, unless what is known is newer, and tells all replicas.
--
-- A value is a line: slot, epoch, newest block, when it was observed (us), JSON. The slot and the newest
-- block have leading zeros, so that they compare as texts: numbers of Lua are exact up to 2^53.
--
-- KEYS  1 value, then the proof of each upstream that has one
-- ARGV  1 slot, 2 epoch, 3 newest block, 4 the value's age in us, 5 JSON, 6 for how long it is kept in ms,
--       7 channel, 8 the length of a slot and 9 the chain's phase in us, then the ms that each proof holds
-- Gives "" where it was published, else the value that stands
local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000000 + tonumber(time[2])
local length = tonumber(ARGV[8])
local moment = now + tonumber(ARGV[9])
local current = string.format('%020.0f', (moment - moment % length) / length)

local stored = redis.pcall('GET', KEYS[1])
if type(stored) == 'string' then
  local slot, epoch, head = string.match(stored, '^(%d+) (%d+) (%d+) %d+ ')
  -- One of a slot that has not begun is from before the clock was put back.
  if slot and #slot == 20 and #head == 20 and slot <= current then
    local is_older = slot > ARGV[1] or tonumber(epoch) > tonumber(ARGV[2])
    local is_lower = tonumber(epoch) == tonumber(ARGV[2]) and head > ARGV[3]
    if is_older or is_lower then
      return stored
    end
  end
end

local observed = string.format('%.0f', now - tonumber(ARGV[4]))
local value = table.concat({ ARGV[1], ARGV[2], ARGV[3], observed, ARGV[5] }, ' ')
redis.call('SET', KEYS[1], value, 'PX', ARGV[6])
for i = 2, #KEYS do
  redis.call('SET', KEYS[i], '1', 'PX', ARGV[8 + i])
end
redis.call('PUBLISH', ARGV[7], string.format('value %.0f %s', now, value))
return ''
