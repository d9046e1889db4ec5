export function editFilters() { return { load: async () => {}, draw: () => null }; }
