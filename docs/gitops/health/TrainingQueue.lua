-- A queue that is held is as its spec asks. It is not Suspended: a sync would wait at it, and Argo CD
-- takes no newer commit while a sync waits, not even the one that opens the queue again.
for _, condition in ipairs(obj.status ~= nil and obj.status.conditions or {}) do
  if condition.type == "Active" then
    local generation = condition.observedGeneration
    if generation ~= nil and generation ~= obj.metadata.generation then
      break
    end
    if condition.status == "True" or condition.reason == "QueueStopped" then
      return {status = "Healthy", message = condition.message}
    end
    return {status = "Degraded", message = condition.reason .. ": " .. condition.message}
  end
end
return {status = "Progressing", message = "nothing is said of it yet by trellis.dev/operator"}
