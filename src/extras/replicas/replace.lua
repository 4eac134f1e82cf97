-- Replaces the entry of a state, unless another process has replaced it since it was read.
--
-- KEYS  1 entry: its time in ms and the state
-- ARGV  1 known entry or "", 2 new state or "" only to read, 3 lifetime in ms
-- Returns the entry ("": none), 1 if it is the new one, and the time in ms
local time = redis.call('TIME')
local now = string.format('%.0f', time[1] * 1000 + math.floor(time[2] / 1000))
local entry = redis.call('GET', KEYS[1]) or ''
local is_new = ARGV[2] ~= '' and entry == ARGV[1]
if is_new then
  entry = now .. ' ' .. ARGV[2]
  redis.call('SET', KEYS[1], entry, 'PX', ARGV[3])
end
return { entry, is_new and 1 or 0, now }
