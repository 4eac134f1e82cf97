-- Deletes an invalid record, unless it has been replaced meanwhile.
--
-- KEYS  1 record
-- ARGV  1 beginning of the invalid record
-- Returns 1 if the record was deleted, else 0
local stored = redis.pcall('GET', KEYS[1])
if type(stored) == 'string' and string.sub(stored, 1, #ARGV[1]) == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
return 0
