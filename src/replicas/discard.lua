-- Removes a value that is invalid, unless there is another by now.
--
-- KEYS  1 value
-- ARGV  1 what it begins with
-- Gives 1 where it was removed
local stored = redis.pcall('GET', KEYS[1])
if type(stored) == 'string' and string.sub(stored, 1, #ARGV[1]) == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
return 0
