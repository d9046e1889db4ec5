export function moveGroups() { return { load: async () => {}, draw: () => null }; }
